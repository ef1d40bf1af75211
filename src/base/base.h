/* base: what every other room stands on. No I/O, no Kubernetes, no GPUs.
 * See README.md for the promises; each header below documents its own calls. */
#ifndef RF_BASE_H
#define RF_BASE_H

#include "base/macro.h"
#include "base/err.h"
#include "base/str.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/vec.h"
#include "base/map.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/quantity.h"
#include "base/rand.h"

#endif
