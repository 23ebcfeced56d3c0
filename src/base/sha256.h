/*
 * sha256: the hash of FIPS 180-4, for checks of small things. Commands that hash whole models use libcrypto; programs that must not
 * load it use this.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct sha256 {
    uint32_t state[8];
    uint64_t total_bytes;
    uint8_t block[64];
};

void sha256_init(struct sha256 *hash);
void sha256_update(struct sha256 *hash, const void *data, size_t size_bytes);
void sha256_finish(struct sha256 *hash, uint8_t digest[32]);
/* The digest as 64 lower-case hexadecimal digits and a 0. */
void sha256_hex(const uint8_t digest[32], char text[65]);
