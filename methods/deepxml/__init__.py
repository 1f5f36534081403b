"""What SiameseXML is made of: bags of token vectors, their encoder, its training, classifiers of labels."""
