/*
 * op_names: names of the op kinds for plans, timings and messages.
 */
#include "base/check.h"
#include "op/op.h"

const char *op_kind_name(enum op_kind kind) {
    static const char *const names[OP_KIND_COUNT] = {
        [OP_EMBED] = "embed",
        [OP_NORM] = "norm",
        [OP_MATMUL] = "matmul",
        [OP_UNPERMUTE] = "unpermute",
        [OP_ROPE_TABLE] = "rope_table",
        [OP_ROPE] = "rope",
        [OP_KV_WRITE] = "kv_write",
        [OP_ATTENTION] = "attention",
        [OP_INDEX] = "index",
        [OP_HEAD_MATMUL] = "head_matmul",
        [OP_COPY_HEADS] = "copy_heads",
        [OP_GATE] = "gate",
        [OP_ADD] = "add",
        [OP_SCALE] = "scale",
        [OP_ADD_GATED] = "add_gated",
        [OP_TAKE_WEIGHT] = "take_weight",
        [OP_SCALE_BY_POSITION] = "scale_by_position",
        [OP_SCALE_VECTOR] = "scale_vector",
        [OP_SOFTCAP] = "softcap",
        [OP_ROUTER] = "router",
        [OP_EXPERTS] = "experts",
        [OP_ZERO_EXPERTS] = "zero_experts",
        [OP_MULTIPLY] = "multiply",
        [OP_SHORT_CONV] = "short_conv",
        [OP_DECAY] = "decay",
        [OP_DELTA_RULE] = "delta_rule",
        [OP_KEEP_CLUSTERS] = "keep_clusters",
        [OP_SELECT_ROWS] = "select_rows",
    };
    CHECK(kind < OP_KIND_COUNT && names[kind]);
    return names[kind];
}
