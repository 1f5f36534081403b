"""Sources that datasets are built from: one module per recipe, named as in the cards, with underscores for hyphens.

Each module defines

    indices(recipe)          names of the source files
    index_file(folder, name) the source file of this name in a folder; raises DataError if there is none
    index_digest(path)       SHA-256 (hex) of a source file without its compression
    fetch(recipe, out)       download the source files into a folder; returns their paths
    write(recipe, files, out)  write the dataset in the XC raw layout from the source files
"""
