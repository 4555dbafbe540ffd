// The other half of no_contraction_test.cc: compiled with the same flags, without the header.
float contracted(float a, float b, float c) { return a * b + c; }
