/* Device code is the program's own: whatever it says, the library reads no further than it is long, and what it makes of it is
 * no less than the variables take side by side. */
#include <stdint.h>
#include <stdlib.h>

#include "base/base.h"
#include "fence/image.c" /* for what is behind a file: a text of known length */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned char *exact = malloc(size ? size : 1); /* so that a byte too far is found */
	struct rf_image i;

	rf_assert(exact);
	memcpy(exact, data, size);
	i = read_some(exact, size);
	rf_assert(i.apart >= i.bytes);
	free(exact);
	return 0;
}
