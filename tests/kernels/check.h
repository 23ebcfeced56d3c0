/*
 * check: what the kernel checks share: memory that ends at a forbidden page, random and awkward numbers, comparison of bits.
 *
 * Every level that this machine has is compared with ref/ bit for bit; two NaNs count as equal, since their payload is not promised.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "dtype/scalar_convert.h"
#include "kernel/kernel.h"

#define CHECK_PAGE ((size_t)4096)
#define CHECK_SENTINEL 0xa5 /* fills the bytes around outputs */

/* ---- random numbers ---- */

struct check_random {
    uint64_t state;
};
static inline uint32_t check_bits(struct check_random *r) {
    r->state = r->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(r->state >> 33) ^ (uint32_t)(r->state >> 59 << 29);
}
static inline size_t check_below(struct check_random *r, size_t limit) { return check_bits(r) % limit; }
static inline float check_uniform(struct check_random *r) { return (float)(int32_t)(check_bits(r) << 1) * 0x1p-31f; } /* [-1, 1) */

enum check_values { CHECK_PLAIN, CHECK_AWKWARD, CHECK_SPECIAL, CHECK_VALUES_COUNT };

/* PLAIN: about -4 .. 4. AWKWARD: also zeros, subnormals, 1e30 and 1e-30. SPECIAL: also infinities and NaN. */
static inline float check_float(struct check_random *r, enum check_values values) {
    static const float awkward[] = {0.0f, -0.0f, 1e-41f, -3e-39f, 1e30f, -1e30f, 1e-30f, 65504.0f, -1.0f, 88.8f, -103.5f};
    if (values != CHECK_PLAIN && check_below(r, 4) == 0)
        return awkward[check_below(r, sizeof awkward / sizeof awkward[0])];
    if (values == CHECK_SPECIAL && check_below(r, 64) == 0)
        return f32_from_bits((uint32_t[]){0x7f800000u, 0xff800000u, 0x7fc00000u}[check_below(r, 3)]);
    return check_uniform(r) * (check_below(r, 8) == 0 ? 4.0f : 1.0f);
}

/* ---- memory ---- */

struct check_memory { /* freed together */
    struct {
        void *base;
        size_t size_bytes;
    } block[64];
    size_t count;
};

/* size_bytes that end at a page that must not be touched, preceded by sentinels. Alignment is what falls out. */
static inline void *check_guarded(struct check_memory *memory, size_t size_bytes) {
    size_t body = (size_bytes + 2 * CHECK_PAGE - 1) / CHECK_PAGE * CHECK_PAGE;
    assert_true(memory->count < sizeof memory->block / sizeof memory->block[0]);
    uint8_t *base = mmap(NULL, body + CHECK_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(base != MAP_FAILED);
    assert_int_equal(mprotect(base + body, CHECK_PAGE, PROT_NONE), 0);
    memset(base, CHECK_SENTINEL, body);
    memory->block[memory->count].base = base;
    memory->block[memory->count++].size_bytes = body + CHECK_PAGE;
    return base + body - size_bytes;
}
static inline void check_release(struct check_memory *memory) {
    while (memory->count > 0) {
        memory->count--;
        munmap(memory->block[memory->count].base, memory->block[memory->count].size_bytes);
    }
}
/* The 64 bytes before a guarded block are as they were. */
static inline void check_untouched_before(const void *block) {
    for (size_t i = 1; i <= 64; i++)
        assert_int_equal(((const uint8_t *)block)[-(ptrdiff_t)i], CHECK_SENTINEL);
}

static inline float *check_floats(struct check_memory *memory, size_t count, struct check_random *r, enum check_values values) {
    float *x = check_guarded(memory, count * sizeof(float));
    for (size_t i = 0; i < count; i++)
        x[i] = check_float(r, values);
    return x;
}

/* ---- levels and comparison ---- */

/* Tables to compare with ref/; `index` counts from 0; NULL after the last. */
static inline const struct kernel_table *check_level(unsigned index) {
    for (unsigned isa = CPU_ISA_REF + 1; isa < CPU_ISA_COUNT; isa++)
        if (cpu_isa_available((enum cpu_isa)isa) && index-- == 0)
            return kernel_table_for((enum cpu_isa)isa);
    return NULL;
}

static inline void check_same(const float *want, const float *got, size_t count, const char *what, const struct kernel_table *level) {
    for (size_t i = 0; i < count; i++) {
        bool nan = want[i] != want[i] && got[i] != got[i];
        if (!nan && bits_from_f32(want[i]) != bits_from_f32(got[i]))
            fail_msg("%s, level %s, element %zu of %zu: ref %a (%08x), got %a (%08x)", what, cpu_isa_name(level->isa), i, count,
                     (double)want[i], bits_from_f32(want[i]), (double)got[i], bits_from_f32(got[i]));
    }
}
