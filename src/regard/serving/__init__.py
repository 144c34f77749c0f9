"""Service of runs over HTTP: texts and images in, texts, labels and attention out."""
