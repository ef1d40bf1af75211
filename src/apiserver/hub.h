/* Hub: who watches what. Every committed change goes to every watcher it concerns, in order of
 * resourceVersion; a watcher that starts at an older one is first told what it missed, from the
 * store's history. As all of this happens on one thread, nothing can fall between the two. */
#ifndef RF_APISERVER_HUB_H
#define RF_APISERVER_HUB_H

#include "apiserver/api.h"

#define RF_WATCHERS_MAX 10000
#define RF_WATCHERS_PER_USER                                                                       \
	500 /* of people and service accounts; ringfence itself has no such cap */
#define RF_WATCH_PENDING_MAX (4 * 1024 * 1024) /* a client this far behind is let go */

struct rf_hub *rf_hub_new(struct rf_api *api);
void rf_hub_free(struct rf_hub *h); /* ends every watch */
/* For rf_store_commit. */
void rf_hub_publish(void *hub, const struct rf_change *c);
/* Ends watches whose time is over and sends bookmarks; once a second. */
void rf_hub_tick(struct rf_hub *h);
size_t rf_hub_count(const struct rf_hub *h);

#endif
