"""What programs of the transaction language mean: one package a reading."""
