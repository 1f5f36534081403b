"""What Astec and SiameseXML share: bags of token vectors, their encoder, its training, classifiers of labels."""
