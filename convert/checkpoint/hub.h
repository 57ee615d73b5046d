/* The cache of the Hub: models--OWNER--NAME with refs/, snapshots/REVISION/ and, where the links of
 * the snapshots lead, blobs/. */
#ifndef SMOL_CONVERT_HUB_H
#define SMOL_CONVERT_HUB_H

#include "common/error.h"

/* If the folder `path` is a model of that cache and no checkpoint itself, *snapshot is the folder
 * of the revision to take: the one that refs/main names, or without refs/main the only one. The
 * caller frees it. Otherwise *snapshot is NULL and all is well. Errors: SMOL_ERROR_USAGE (there is
 * a choice; it is named), SMOL_ERROR_FILE (the snapshot is missing), SMOL_ERROR_DAMAGED (refs/main
 * names no revision), SMOL_ERROR_MEMORY. */
smol_status smol_hub_snapshot(const char *path, char **snapshot, smol_error *error);

#endif
