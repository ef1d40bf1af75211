#include "gpu/gpu.h"

/* NVIDIA's catalogue of XIDs, by its immediate action, for Ampere and newer. Errors of one program
 * (13, 31, 43, 45, 94, ...) leave the card in service: taking it away for them would let one tenant
 * empty the machine. */
static const struct {
	uint16_t first, last;
	enum rf_xid_kind kind;
} KINDS[] = {
	{ 8, 8, RF_XID_APPLICATION },	  { 11, 11, RF_XID_APPLICATION },
	{ 13, 13, RF_XID_APPLICATION },	  { 25, 25, RF_XID_APPLICATION },
	{ 31, 32, RF_XID_APPLICATION },	  { 37, 41, RF_XID_APPLICATION },
	{ 43, 45, RF_XID_APPLICATION },	  { 46, 46, RF_XID_RESET },
	{ 48, 48, RF_XID_RESET },	  { 60, 60, RF_XID_APPLICATION },
	{ 62, 62, RF_XID_RESET },	  { 63, 63, RF_XID_APPLICATION },
	{ 64, 64, RF_XID_RESET },	  { 66, 72, RF_XID_APPLICATION },
	{ 74, 74, RF_XID_RESET },	  { 75, 77, RF_XID_APPLICATION },
	{ 79, 79, RF_XID_REBOOT },	  { 80, 80, RF_XID_APPLICATION },
	{ 82, 86, RF_XID_APPLICATION },	  { 88, 89, RF_XID_APPLICATION },
	{ 92, 94, RF_XID_APPLICATION },	  { 95, 95, RF_XID_RESET },
	{ 96, 107, RF_XID_APPLICATION },  { 109, 110, RF_XID_RESET },
	{ 119, 120, RF_XID_RESET },	  { 121, 121, RF_XID_APPLICATION },
	{ 126, 135, RF_XID_APPLICATION }, { 136, 136, RF_XID_RESET },
	{ 137, 137, RF_XID_APPLICATION }, { 139, 139, RF_XID_APPLICATION },
	{ 140, 140, RF_XID_RESET },	  { 141, 141, RF_XID_APPLICATION },
	{ 143, 150, RF_XID_RESET },	  { 151, 151, RF_XID_REBOOT },
	{ 154, 154, RF_XID_RESET },	  { 155, 156, RF_XID_RESET },
	{ 157, 157, RF_XID_APPLICATION }, { 158, 158, RF_XID_RESET },
	{ 160, 161, RF_XID_APPLICATION },
};

enum rf_xid_kind rf_gpu_xid_kind(int64_t xid)
{
	for (size_t i = 0; i < RF_COUNT(KINDS); i++)
		if (xid >= KINDS[i].first && xid <= KINDS[i].last)
			return KINDS[i].kind;
	return RF_XID_SUPPORT;
}
