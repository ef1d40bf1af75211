#include "fence/uuid.h"

#include <string.h>

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool rf_uuid_parse(const char *text, uint8_t ret[16])
{
	const char *p = strchr(text, '-');
	unsigned digits = 0;

	for (p = p ? p + 1 : text; *p && digits < 32; p++) {
		int d = hex_digit(*p);

		if (*p == '-')
			continue;
		if (d < 0)
			return false;
		ret[digits / 2] = (uint8_t)(digits % 2 ? ret[digits / 2] | d : d << 4);
		digits++;
	}
	return digits == 32 && *p == '\0';
}
