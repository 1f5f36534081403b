"""What Astec and SiameseXML are made of: bags of token vectors, their encoder, its training, classifiers of labels."""
