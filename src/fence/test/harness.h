/* An agent for tests that says exactly what it is told, and tenants under the fake driver. */
#ifndef RF_FENCE_TEST_HARNESS_H
#define RF_FENCE_TEST_HARNESS_H

#include <stdint.h>
#include <sys/types.h>

#include "fence/protocol.h"

/* Starts in a fresh folder, with these limits for devices 0 and 1. */
void harness_start(uint64_t cap0, uint64_t cap1, uint64_t context_bytes);
void harness_stop(void);
/* Runs a scenario of probe_ways.c to its end; the exit status. */
int harness_run(const char *scenario);
/* Runs it until it says that it is ready; end it by harness_end. */
pid_t harness_hold(const char *scenario);
int harness_end(pid_t pid);
/* What the seats of the ledger say, dead or alive. */
uint64_t harness_booked(unsigned card);

#endif
