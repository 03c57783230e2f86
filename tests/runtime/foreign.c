// A library that calls itself what CANN's runtime is called.
int gradus_test_foreign(void) { return 1; }
