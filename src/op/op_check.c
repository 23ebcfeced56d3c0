/*
 * op_check: the contract of a call, checked. A failure is a mistake in a plan or executor, never of a file.
 */
#include "base/check.h"
#include "op/op.h"

static void check_weight(const struct weight_view *view, size_t cols) {
    CHECK(view->part_count > 0);
    size_t row = view->parts[0].first_row;
    for (size_t i = 0; i < view->part_count; i++) {
        CHECK(view->parts[i].first_row == row && view->parts[i].matrix.cols == cols && view->parts[i].matrix.data);
        row += view->parts[i].matrix.rows;
    }
}

static void check_matmul(const struct op *op, const struct op_call *call) {
    CHECK(call->in[0] && op->matmul.outputs >= 1 && op->matmul.outputs <= OP_WEIGHTS_MAX);
    for (uint32_t i = 0; i < op->matmul.outputs; i++) {
        CHECK(call->out[i] && call->out[i] != call->in[0]);
        check_weight(&call->weight[i], call->in_width[0]);
        const struct matrix_part *last = &call->weight[i].parts[call->weight[i].part_count - 1];
        CHECK(last->first_row + last->matrix.rows <= call->out_width[i]);
    }
}

static void check_experts(const struct op *op, const struct op_call *call) {
    CHECK(call->in[0] && call->in[1] && call->out[0]);
    CHECK(call->in_width[0] == op->experts.hidden && call->out_width[0] == op->experts.hidden);
    CHECK(call->in_width[1] >= 2 * (size_t)op->experts.top_k);
    for (size_t w = 0; w < call->work_count; w++) {
        const struct expert_work *work = &call->work[w];
        CHECK(work->expert < op->experts.experts && work->row_count > 0);
        CHECK(work->up.rows == op->experts.expert_hidden && work->up.cols == op->experts.hidden);
        CHECK(work->down.rows == op->experts.hidden && work->down.cols == op->experts.expert_hidden);
        CHECK(call->park || w == 0 || call->work[w - 1].expert < work->expert);
        for (uint32_t i = 0; i < work->row_count; i++)
            CHECK(work->rows[i] < call->rows && work->ranks[i] < op->experts.top_k);
    }
}

static void check_norm(const struct op *op, const struct op_call *call) {
    size_t used = (size_t)op->norm.vectors * op->norm.size;
    CHECK(call->in[0] && call->out[0] && call->in_width[0] == call->out_width[0]);
    CHECK(used == call->in_width[0] || (used < call->in_width[0] && call->in[0] == call->out[0]));
}

static void check_attention(const struct op *op, const struct op_call *call) {
    CHECK(call->in[0] && call->out[0] && call->kv && call->row);
    CHECK(call->in_width[0] == (size_t)op->attention.heads * op->attention.head_dim);
    CHECK(call->out_width[0] == (size_t)op->attention.heads * op->attention.v_dim);
    CHECK(op->attention.kv_heads > 0 && op->attention.heads % op->attention.kv_heads == 0);
    CHECK(!op->attention.values_in_keys || op->attention.v_dim <= op->attention.head_dim);
    CHECK(!call->in[1] || op->attention.window == 0);
}

static void check_index(const struct op *op, const struct op_call *call) {
    CHECK(call->in[0] && call->in[1] && call->out[0] && call->kv && call->row);
    CHECK(call->in_width[0] == (size_t)op->index.heads * op->index.head_dim && call->in_width[1] == op->index.heads);
    CHECK(op->index.top_k > 0 && call->out_width[0] == (size_t)op->index.top_k + 1);
}

static void check_head_matmul(const struct op *op, const struct op_call *call) {
    uint32_t heads = op->head_matmul.heads, in = op->head_matmul.in_size, out = op->head_matmul.out_size;
    CHECK(call->in[0] && call->out[0] && call->out[0] != call->in[0] && heads > 0);
    CHECK(in <= op->head_matmul.in_stride && call->in_width[0] == (size_t)heads * op->head_matmul.in_stride);
    CHECK(out <= op->head_matmul.out_stride && call->out_width[0] == (size_t)heads * op->head_matmul.out_stride);
    check_weight(&call->weight[0], op->head_matmul.transposed ? out : in);
    for (size_t p = 0; p < call->weight[0].part_count && op->head_matmul.transposed; p++)
        CHECK(call->weight[0].parts[p].first_row % in == 0 && call->weight[0].parts[p].matrix.rows % in == 0);
}

static void check_copy_heads(const struct op *op, const struct op_call *call) {
    CHECK(call->in[0] && call->out[0] && call->in[0] != call->out[0]);
    CHECK(op->copy_heads.in_offset + op->copy_heads.size <= op->copy_heads.in_stride);
    CHECK(op->copy_heads.out_offset + op->copy_heads.size <= op->copy_heads.out_stride);
    CHECK((size_t)op->copy_heads.heads * op->copy_heads.in_stride <= call->in_width[0]);
    CHECK((size_t)op->copy_heads.heads * op->copy_heads.out_stride <= call->out_width[0]);
}

static void check_short_conv(const struct op *op, const struct op_call *call) {
    size_t group = (size_t)op->short_conv.parts[0] + op->short_conv.parts[1] + op->short_conv.parts[2];
    CHECK(call->in[0] && call->out[0] && call->in[0] != call->out[0] && call->recurrent && call->row && call->constant[0]);
    CHECK(op->short_conv.kernel >= 1 && op->short_conv.kernel <= OP_KERNEL_MAX && group <= op->short_conv.group_stride);
    CHECK(call->in_width[0] == (size_t)op->short_conv.groups * op->short_conv.group_stride);
    CHECK(op->short_conv.channels == op->short_conv.groups * group);
    CHECK((size_t)op->short_conv.out_offset + op->short_conv.channels <= call->out_width[0]);
}

/* Elements of b or a that a head's place reaches to. */
static size_t gates_end(const struct op *op) {
    return (op->delta_rule.heads / op->delta_rule.gate_group - 1) * (size_t)op->delta_rule.gate_stride + op->delta_rule.gate_group;
}

static void check_delta_rule(const struct op *op, const struct op_call *call) {
    size_t keys = (size_t)op->delta_rule.key_heads * op->delta_rule.key_dim;
    size_t values = (size_t)op->delta_rule.heads * op->delta_rule.value_dim;
    CHECK(call->in[0] && (call->in[2] || op->delta_rule.steady) && call->out[0] && call->out[0] != call->in[0] && call->recurrent &&
          call->row);
    CHECK(op->delta_rule.q_offset + keys <= call->in_width[0] && op->delta_rule.k_offset + keys <= call->in_width[0]);
    CHECK(op->delta_rule.v_offset + values <= call->in_width[0] && call->out_width[0] == values);
    CHECK(op->delta_rule.key_heads > 0 && op->delta_rule.heads % op->delta_rule.key_heads == 0);
    CHECK(op->delta_rule.gate_group > 0 && op->delta_rule.heads % op->delta_rule.gate_group == 0);
    CHECK(!call->in[1] || op->delta_rule.b_offset + gates_end(op) <= call->in_width[1]);
    if (op->delta_rule.steady) {
        CHECK(!call->in[1] && call->constant[0]);
        return;
    }
    if (op->delta_rule.channel_decay)
        CHECK(call->in[1] && call->in_width[2] == (size_t)op->delta_rule.heads * op->delta_rule.key_dim);
    else
        CHECK(op->delta_rule.a_offset + gates_end(op) <= call->in_width[2] && call->constant[0] && call->constant[1]);
    CHECK(!op->delta_rule.key_rates || op->delta_rule.key_dim <= OP_KEY_RATES_MAX);
    CHECK(op->delta_rule.channel_decay || op->delta_rule.most > op->delta_rule.least);
}

void op_check(const struct op *op, const struct op_call *call) {
    CHECK(call->rows > 0 || op->kind == OP_SELECT_ROWS);
    switch (op->kind) {
    case OP_MATMUL:
        check_matmul(op, call);
        break;
    case OP_EXPERTS:
        check_experts(op, call);
        break;
    case OP_NORM:
        check_norm(op, call);
        break;
    case OP_ATTENTION:
        check_attention(op, call);
        break;
    case OP_KV_WRITE:
        CHECK(call->in[0] && (call->in[1] || op->kv_write.v_dim == 0) && call->kv && call->row);
        break;
    case OP_INDEX:
        check_index(op, call);
        break;
    case OP_HEAD_MATMUL:
        check_head_matmul(op, call);
        break;
    case OP_COPY_HEADS:
        check_copy_heads(op, call);
        break;
    case OP_GATE:
        if (op->gate.repeat > 1) {
            CHECK(call->in[0] && call->out[0] && call->in[1] == call->out[0] && op->gate.gate == GATE_SIGMOID && op->gate.u_offset == 0);
            CHECK(call->in_width[0] * op->gate.repeat == call->out_width[0]);
            break;
        }
        CHECK(call->in[0] && call->out[0] && call->in_width[0] == call->out_width[0]);
        CHECK(!call->in[1] || (size_t)op->gate.u_offset + call->in_width[0] <= call->in_width[1]);
        break;
    case OP_ADD_GATED:
        CHECK(call->in[0] && call->in[1] && call->out[0] && call->in_width[0] == call->out_width[0] && call->in_width[1] == 1);
        break;
    case OP_TAKE_WEIGHT:
        CHECK(call->in[0] && call->in[1] && call->out[0] && call->out[1] && call->in_width[0] == call->out_width[0]);
        CHECK(call->in_width[1] == 2 && call->out_width[1] == 2);
        break;
    case OP_ZERO_EXPERTS:
        CHECK(call->in[0] && call->in[1] && call->out[0] && call->in_width[0] == call->out_width[0]);
        CHECK(call->in_width[1] >= 2 * (size_t)op->zero_experts.top_k);
        break;
    case OP_SCALE_BY_POSITION:
        CHECK(call->out[0] && call->row && op->scale_by_position.period > 0);
        break;
    case OP_SHORT_CONV:
        check_short_conv(op, call);
        break;
    case OP_DECAY:
        CHECK(call->in[0] && call->out[0] && call->in_width[0] == call->out_width[0] && call->constant[0] && call->constant[1]);
        CHECK((size_t)op->decay.heads * op->decay.size == call->in_width[0]);
        break;
    case OP_DELTA_RULE:
        check_delta_rule(op, call);
        break;
    case OP_ADD:
    case OP_MULTIPLY:
        CHECK(call->in[0] && call->out[0] && call->in_width[0] == call->out_width[0]);
        break;
    case OP_KEEP_CLUSTERS:
        CHECK(call->in[0] && call->out[0] && call->constant[0] && call->in_width[0] == op->keep_clusters.clusters);
        CHECK(op->keep_clusters.kept > 0 && op->keep_clusters.kept <= op->keep_clusters.clusters);
        CHECK(call->out_width[0] % op->keep_clusters.clusters == 0);
        break;
    case OP_ROUTER:
        CHECK(call->in_width[0] == op->router.experts && call->out_width[0] >= 2 * (size_t)op->router.top_k);
        CHECK(op->router.top_k <= op->router.experts);
        break;
    default:
        CHECK(call->out[0]);
        break;
    }
}
