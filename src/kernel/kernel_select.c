/*
 * kernel_select: the tables of all levels, each made of the one below and what its own folder does better.
 *
 * A new level is a folder with an ENTRIES list and one line here. The tables are constant; code of a level runs only when its table was
 * handed out, and that happens only after the processor was asked.
 */
#include "base/check.h"
#include "kernel/kernel.h"
#include "kernel/ref/ref.h"
#if defined(__x86_64__)
#include "kernel/amx/amx.h"
#include "kernel/avx2/avx2.h"
#include "kernel/avx512/avx512.h"
#elif defined(__aarch64__)
#include "kernel/dotprod/dotprod.h"
#include "kernel/i8mm/i8mm.h"
#include "kernel/neon/neon.h"
#endif

#pragma GCC diagnostic ignored "-Woverride-init" /* later initialisers replace earlier ones on purpose */

static const struct kernel_table tables[CPU_ISA_COUNT] = {
    [CPU_ISA_REF] = {REF_ENTRIES, .isa = CPU_ISA_REF},
#if defined(__x86_64__)
    [CPU_ISA_AVX2] = {REF_ENTRIES, AVX2_ENTRIES, .isa = CPU_ISA_AVX2},
    [CPU_ISA_AVX512] = {REF_ENTRIES, AVX2_ENTRIES, AVX512_ENTRIES, .isa = CPU_ISA_AVX512},
    [CPU_ISA_AMX] = {REF_ENTRIES, AVX2_ENTRIES, AVX512_ENTRIES, AMX_ENTRIES, .isa = CPU_ISA_AMX},
#elif defined(__aarch64__)
    [CPU_ISA_NEON] = {REF_ENTRIES, NEON_ENTRIES, .isa = CPU_ISA_NEON},
    [CPU_ISA_DOTPROD] = {REF_ENTRIES, NEON_ENTRIES, DOTPROD_ENTRIES, .isa = CPU_ISA_DOTPROD},
    [CPU_ISA_I8MM] = {REF_ENTRIES, NEON_ENTRIES, DOTPROD_ENTRIES, I8MM_ENTRIES, .isa = CPU_ISA_I8MM},
#endif
};

/* A level is what the processor says; tiles, which virtual machines and compilers got wrong before, are tried (some 20 microseconds). */
static bool works(enum cpu_isa isa) {
#if defined(__x86_64__)
    return isa != CPU_ISA_AMX || amx_tiles_work();
#else
    return isa < CPU_ISA_COUNT;
#endif
}

const struct kernel_table *kernel_table_for(enum cpu_isa isa) {
    CHECK((unsigned)isa < CPU_ISA_COUNT);
    return cpu_isa_available(isa) && works(isa) ? &tables[isa] : NULL;
}
