#include "base/fs.h"
