/* A kubelet for tests, as far as its plugins can tell: it takes registrations and calls back, follows the
 * lists of devices, says whose devices are whose, and calls what it is told to call. */
#ifndef RF_PLUGIN_TEST_KUBELET_H
#define RF_PLUGIN_TEST_KUBELET_H

#include "base/base.h"

struct kubelet;

/* Makes its folders below dir; nothing listens yet. */
struct kubelet *kubelet_new(const char *dir);
void kubelet_free(struct kubelet *k);
/* As a real one starts: removes every socket in device-plugins, then listens. Not clean: leaves those
 * of others alone. */
void kubelet_start(struct kubelet *k, bool clean);
void kubelet_stop(struct kubelet *k);
/* Lets things happen, for some milliseconds at most. */
void kubelet_turn(struct kubelet *k);

/* --- device plugins --------------------------------------------------------------------------- */

void kubelet_refuse(struct kubelet *k, bool refuse); /* every Register */
void kubelet_delay(struct kubelet *k, bool delay);   /* Register is answered when this is over */
/* How often to register anything, since its start; -1: it does not run. */
int kubelet_asked(const struct kubelet *k);
/* Registered, and its list is followed. */
bool kubelet_follows(const struct kubelet *k, const char *resource);
void kubelet_unfollow(struct kubelet *k, const char *resource);
/* 1 healthy, 0 not, -1: no such slot. */
int kubelet_health(const struct kubelet *k, const char *resource, const char *slot);
size_t kubelet_slots(const struct kubelet *k, const char *resource);

/* slots: "slot-0 slot-1". Each returns 0 or a negative code. */
int kubelet_allocate(struct kubelet *k, const char *resource, const char *slots, char ret_cdi[128],
		     struct rf_err *err);
int kubelet_prestart(struct kubelet *k, const char *resource, const char *slots,
		     struct rf_err *err);
/* What its pod-resources API says from now on. */
void kubelet_assign(struct kubelet *k, const char *pod, const char *container, const char *resource,
		    const char *slots);
void kubelet_unassign(struct kubelet *k, const char *pod); /* NULL: all */
void kubelet_deaf(struct kubelet *k, bool deaf); /* its pod-resources API does not answer */
void kubelet_begin_prestart(struct kubelet *k, const char *resource, const char *slots);

/* --- DRA -------------------------------------------------------------------------------------- */

/* GetInfo, then NotifyRegistrationStatus. */
int kubelet_register_driver(struct kubelet *k, struct rf_err *err);
struct kubelet_claim {
	const char *name, *uid; /* in namespace team-a */
};
/* devices: a line "request pool device cdi" for each. An error of the claim is an error. */
int kubelet_prepare(struct kubelet *k, struct kubelet_claim c, struct rf_buf *ret_devices,
		    struct rf_err *err);
int kubelet_unprepare(struct kubelet *k, struct kubelet_claim c, struct rf_err *err);

#endif
