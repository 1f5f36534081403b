"""The parts of Astec and SiameseXML: bags of token vectors, their encoder, its training, classifiers of labels."""
