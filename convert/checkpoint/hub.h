/* Finds snapshots in the cache of the Hugging Face Hub. A model's folder there is
 * models--OWNER--NAME, with refs/, snapshots/REVISION/ and blobs/. The files of a snapshot are
 * links into blobs/. */
#ifndef SMOL_CONVERT_HUB_H
#define SMOL_CONVERT_HUB_H

#include "common/error.h"

/* Finds the snapshot to use in a model's folder of the cache, if `path` is one (it has a folder
 * snapshots/). *snapshot becomes the path of the revision that refs/main names, or of the only
 * revision if there is no refs/main. The caller frees it. If `path` is not such a folder, *snapshot
 * is NULL and the result is SMOL_OK. Errors: SMOL_ERROR_USAGE (several revisions and no refs/main),
 * SMOL_ERROR_FILE (the snapshot is missing), SMOL_ERROR_DAMAGED (refs/main does not name a
 * revision), SMOL_ERROR_MEMORY. */
smol_status smol_hub_snapshot(const char *path, char **snapshot, smol_error *error);

#endif
