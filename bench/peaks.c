/*
 * peaks: loops of independent multiply-adds on registers, long enough to be timed, short enough to be left alone by the scheduler.
 */
#include "peaks.h"

#include <stdint.h>
#include <string.h>

#include "base/clock.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define STEPS 20000u
#define CHAINS 12
#define REPEAT_12(x) x(0) x(1) x(2) x(3) x(4) x(5) x(6) x(7) x(8) x(9) x(10) x(11)

typedef void loop_fn(void);

/* The statement is repeated for 12 chains of registers r0 .. r11, which the compiler may not fold. */
#define LOOP(name, targets, type, zero, statement)                                                                                     \
    __attribute__((target(targets))) static void name(void) {                                                                          \
        type r0 = zero, r1 = zero, r2 = zero, r3 = zero, r4 = zero, r5 = zero, r6 = zero, r7 = zero, r8 = zero, r9 = zero, r10 = zero, \
             r11 = zero, a = zero, b = zero;                                                                                           \
        __asm__ volatile("" : "+v"(a), "+v"(b));                                                                                       \
        for (unsigned step = 0; step < STEPS; step++) {                                                                                \
            REPEAT_12(statement)                                                                                                       \
        }                                                                                                                              \
        __asm__ volatile("" ::"v"(r0), "v"(r1), "v"(r2), "v"(r3), "v"(r4), "v"(r5), "v"(r6));                                          \
        __asm__ volatile("" ::"v"(r7), "v"(r8), "v"(r9), "v"(r10), "v"(r11));                                                          \
    }
#define FMA_256(i) __asm__ volatile("vfmadd231ps %2, %1, %0" : "+v"(r##i) : "v"(a), "v"(b));
#define FMA_512(i) __asm__ volatile("vfmadd231ps %2, %1, %0" : "+v"(r##i) : "v"(a), "v"(b));
#define DOT_512(i) __asm__ volatile("vpdpbusd %2, %1, %0" : "+v"(r##i) : "v"(a), "v"(b));
/* Products of bytes, their sums by fours, and the addition: what AVX2 needs for one exact dot product. */
#define DOT_256(i)                                                                                           \
    __asm__ volatile("vpmaddubsw %2, %1, %%ymm15\n\tvpmaddwd %1, %%ymm15, %%ymm15\n\tvpaddd %%ymm15, %0, %0" \
                     : "+x"(r##i)                                                                            \
                     : "x"(a), "x"(b)                                                                        \
                     : "xmm15");

LOOP(fma_256, "avx2,fma", __m256, _mm256_setzero_ps(), FMA_256)
LOOP(fma_512, "avx512f", __m512, _mm512_setzero_ps(), FMA_512)
LOOP(dot_256, "avx2", __m256i, _mm256_setzero_si256(), DOT_256)
LOOP(dot_512, "avx512f,avx512vnni", __m512i, _mm512_setzero_si512(), DOT_512)

/* Four accumulators, two tiles of each side: what registers allow. */
__attribute__((target("amx-tile,amx-int8"))) static void dot_tiles(void) {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (unsigned i = 0; i < 8; i++) {
        config.row_bytes[i] = 64;
        config.rows[i] = 16;
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(config));
    __asm__ volatile("tilezero %tmm0\n\ttilezero %tmm1\n\ttilezero %tmm2\n\ttilezero %tmm3\n\t"
                     "tilezero %tmm4\n\ttilezero %tmm5\n\ttilezero %tmm6\n\ttilezero %tmm7");
    for (unsigned step = 0; step < STEPS / 16; step++)
        __asm__ volatile("tdpbssd %tmm6, %tmm4, %tmm0\n\ttdpbssd %tmm6, %tmm5, %tmm1\n\t"
                         "tdpbssd %tmm7, %tmm4, %tmm2\n\ttdpbssd %tmm7, %tmm5, %tmm3");
    __asm__ volatile("tilerelease");
}

static double rate(loop_fn *loop, double operations) {
    uint64_t best = UINT64_MAX;
    for (unsigned i = 0; i < 300; i++) {
        uint64_t started = clock_now_ns();
        loop();
        uint64_t taken = clock_now_ns() - started;
        best = taken < best ? taken : best;
    }
    return operations / (double)best;
}

double peak_f32(enum cpu_isa isa) {
    if (isa == CPU_ISA_AVX2)
        return rate(fma_256, 2.0 * 8 * CHAINS * STEPS);
    return isa == CPU_ISA_AVX512 || isa == CPU_ISA_AMX ? rate(fma_512, 2.0 * 16 * CHAINS * STEPS) : 0;
}

double peak_int8(enum cpu_isa isa) {
    if (isa == CPU_ISA_AVX2)
        return rate(dot_256, 2.0 * 32 * CHAINS * STEPS);
    if (isa == CPU_ISA_AVX512)
        return rate(dot_512, 2.0 * 64 * CHAINS * STEPS);
    return isa == CPU_ISA_AMX ? rate(dot_tiles, 2.0 * 16 * 16 * 64 * 4 * (STEPS / 16)) : 0;
}

#else

double peak_f32(enum cpu_isa isa) { return isa == CPU_ISA_COUNT ? 1 : 0; }
double peak_int8(enum cpu_isa isa) { return peak_f32(isa); }

#endif
