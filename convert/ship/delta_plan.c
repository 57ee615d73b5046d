/* Plans a delta, see delta_plan.h. */
#include "convert/ship/delta_plan.h"

#include <stdlib.h>
#include <string.h>

#include "common/checked.h"
#include "common/hash.h"

enum { UNIT = 65536 }; /* bytes that are compared at once */

struct delta_plan {
    const struct blob *old_blob, *new_blob;
    struct delta_region *regions; /* (n_regions), in the order of NEW, without gaps */
    size_t n_regions;
    size_t region;            /* the region of the next unit */
    uint64_t done;            /* bytes of that region that are planned */
    struct delta_piece ahead; /* the unit after the last piece; size 0 if there is none */
};

/* --- regions ------------------------------------------------------------------------------ */

/* Returns whether the tensor has its own bytes, and is not an alias of the embedding. */
static bool is_stored(const struct blob *blob, const struct blob_tensor *tensor)
{
    return tensor == blob->tensors || tensor->offset != blob->tensors->offset;
}

static uint64_t tensor_digest(const struct blob *blob, const struct blob_tensor *tensor)
{
    return smol_digest(blob->file.data + tensor->offset, tensor->size);
}

/* Returns OLD's tensor of the same role, layer and expert if its elements are laid out in the same
 * way, or NULL. */
static const struct blob_tensor *find_namesake(const struct blob *old,
                                               const struct blob_tensor *tensor)
{
    for (const struct blob_tensor *t = old->tensors; t < old->tensors + old->n_tensors; t++)
        if (t->role == tensor->role && t->layer == tensor->layer && t->expert == tensor->expert)
            return t->dtype == tensor->dtype && t->cols == tensor->cols ? t : NULL;
    return NULL;
}

/* Returns the tensor of OLD that has the digest of `tensor`, because layers may have moved. Prefers
 * the namesake. If no digest matches, returns the namesake, or NULL if there is none. digests
 * (old->n_tensors) are those of OLD's tensors. */
static const struct blob_tensor *find_counterpart(const struct blob *old, const uint64_t *digests,
                                                  const struct blob *new,
                                                  const struct blob_tensor *tensor)
{
    const struct blob_tensor *namesake = find_namesake(old, tensor);
    uint64_t digest = tensor_digest(new, tensor);
    if (namesake && digests[namesake - old->tensors] == digest)
        return namesake;
    for (size_t i = 0; i < old->n_tensors; i++)
        if (digests[i] == digest && old->tensors[i].size == tensor->size)
            return &old->tensors[i];
    return namesake;
}

static void add_region(struct delta_plan *plan, uint64_t new_offset, uint64_t new_size,
                       uint64_t old_offset, uint64_t old_size, enum delta_method difference)
{
    plan->regions[plan->n_regions++] =
        (struct delta_region){new_offset, new_size, old_offset, old_size, difference};
}

static void add_regions(struct delta_plan *plan, const uint64_t *digests)
{
    const struct blob *old = plan->old_blob, *new = plan->new_blob;
    uint64_t old_data = old->header->data_offset, new_data = new->header->data_offset;
    add_region(plan, 0, new_data, 0, old_data, DELTA_BYTES);
    add_region(plan, new_data, new->tensors->offset - new_data, old_data,
               old->tensors->offset - old_data, DELTA_BYTES);
    for (size_t i = 0; i < new->n_tensors; i++) {
        const struct blob_tensor *tensor = &new->tensors[i];
        if (!is_stored(new, tensor))
            continue;
        const struct blob_tensor *counterpart = find_counterpart(old, digests, new, tensor);
        add_region(plan, tensor->offset, tensor->size, counterpart ? counterpart->offset : 0,
                   counterpart ? counterpart->size : 0,
                   is_grouped(tensor->dtype) ? DELTA_BYTES : DELTA_HALVES);
    }
}

smol_status smol_delta_plan_open(const struct blob *old_blob, const struct blob *new_blob,
                                 struct delta_plan **out, smol_error *error)
{
    struct delta_plan *plan = *out = calloc(1, sizeof *plan);
    uint64_t *digests = calloc(old_blob->n_tensors, sizeof *digests);
    if (plan)
        plan->regions = calloc(2 + new_blob->n_tensors, sizeof *plan->regions);
    if (!plan || !digests || !plan->regions) {
        free(digests);
        smol_delta_plan_close(plan);
        *out = NULL;
        return smol_fail_memory(error, "the plan of a delta");
    }
    plan->old_blob = old_blob;
    plan->new_blob = new_blob;
    for (size_t i = 0; i < old_blob->n_tensors; i++)
        digests[i] = tensor_digest(old_blob, &old_blob->tensors[i]);
    add_regions(plan, digests);
    free(digests);
    return SMOL_OK;
}

void smol_delta_plan_close(struct delta_plan *plan)
{
    if (plan)
        free(plan->regions);
    free(plan);
}

/* --- pieces ------------------------------------------------------------------------------- */

/* Returns the next unit of the current region, which may be shorter than UNIT at its end. Returns
 * size 0 at the end of the plan. */
static struct delta_piece next_unit(struct delta_plan *plan)
{
    if (plan->region == plan->n_regions)
        return (struct delta_piece){0};
    const struct delta_region *region = &plan->regions[plan->region];
    uint64_t left = region->new_size - plan->done;
    struct delta_piece unit = {
        .offset = region->new_offset + plan->done,
        .size = left < UNIT ? left : UNIT,
        .old_offset = region->old_offset + plan->done,
        .region = *region,
    };
    unit.same = range_within(plan->done, unit.size, region->old_size) &&
                memcmp(plan->new_blob->file.data + unit.offset,
                       plan->old_blob->file.data + unit.old_offset, unit.size) == 0;
    plan->done += unit.size;
    if (plan->done == region->new_size) {
        plan->region++;
        plan->done = 0;
    }
    return unit;
}

/* Returns whether `unit`, which follows `piece`, can be part of it. */
static bool belongs(const struct delta_piece *piece, const struct delta_piece *unit)
{
    if (piece->same != unit->same || piece->old_offset + piece->size != unit->old_offset)
        return false;
    return piece->same || (piece->region.new_offset == unit->region.new_offset &&
                           piece->size + unit->size <= DELTA_MAX_NEW);
}

bool smol_delta_plan_next(struct delta_plan *plan, struct delta_piece *piece)
{
    *piece = plan->ahead.size > 0 ? plan->ahead : next_unit(plan);
    while ((plan->ahead = next_unit(plan)).size > 0 && belongs(piece, &plan->ahead))
        piece->size += plan->ahead.size;
    return piece->size > 0;
}
