/*
 * model_identity: see model_identity.h.
 */
#include "engine/model_identity.h"

#include "base/sha256.h"

static void hash_number(struct sha256 *hash, uint64_t number) {
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(number >> (8 * i));
    sha256_update(hash, bytes, sizeof bytes);
}

void model_identity(const struct catalogue *catalogue, uint8_t identity[32]) {
    struct sha256 hash;
    sha256_init(&hash);
    for (uint64_t i = 0; i < catalogue_tensor_count(catalogue); i++) {
        const struct tensor_entry *tensor = catalogue_tensor(catalogue, i);
        hash_number(&hash, tensor->name.size_bytes);
        sha256_update(&hash, tensor->name.data, tensor->name.size_bytes);
        hash_number(&hash, tensor->dtype);
        for (uint32_t d = 0; d < tensor->rank; d++)
            hash_number(&hash, tensor->shape[d]);
        hash_number(&hash, tensor->file);
        hash_number(&hash, tensor->offset_bytes);
        hash_number(&hash, tensor->size_bytes);
    }
    sha256_finish(&hash, identity);
}
