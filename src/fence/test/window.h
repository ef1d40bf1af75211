/* Put into ledger.c for test_ledger: called in the middle of every change. */
void test_window(void);
