/* Exported calls that are not simulated. Each answers the driver's own "not supported", whatever
 * its arguments are. */
#ifndef RF_SIM_UNSUPPORTED_H
#define RF_SIM_UNSUPPORTED_H

/* The function of that name, NULL if the library does not export one. */
void *sim_unsupported(const char *name);

#endif
