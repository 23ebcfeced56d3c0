/*
 * plan_draft: telling the forms apart, and their steps.
 */
#include "model/plan_draft.h"

#include <stdio.h>

#include "base/check.h"
#include "base/memory.h"

struct draft {
    struct build build; /* over the drafter's names */
    const struct draft_request *request;
    uint32_t token; /* buffer with the token's embedding */
    const struct binder *token_owner;
    enum role token_role;
};

/* ---- forms ---- */

static bool has(const struct role_names *names, enum role role, uint32_t layer) {
    return role_find(names, role, layer, -1, ".weight") != NULL;
}

enum status draft_find_prediction(struct role_names *own, uint32_t layers, struct draft_request *request, struct error *err) {
    *request = (struct draft_request){.form = DRAFT_PREDICTION, .layer = layers};
    if (has(own, ROLE_ATTENTION_NORM, layers) && has(own, ROLE_DRAFT_PROJECTION, layers))
        return STATUS_OK; /* behind the last layer: DeepSeek, GLM; GGUF */
    request->layer = 0;
    if (catalogue_world(own->catalogue) == CATALOGUE_HF) {
        (void)snprintf(own->layers, sizeof own->layers, "mtp.layers.");
        if (has(own, ROLE_ATTENTION_NORM, 0) && has(own, ROLE_DRAFT_PROJECTION, 0))
            return STATUS_OK; /* Qwen */
        (void)snprintf(own->layers, sizeof own->layers, "%smtp_layers.", own->prefix);
        request->hidden_first = request->before_norm = true;
        if (has(own, ROLE_ATTENTION_NORM, 0) && has(own, ROLE_DRAFT_PROJECTION, 0))
            return STATUS_OK; /* MiMo */
    }
    return error_set(
        err, STATUS_NOT_FOUND,
        "%s: these files have no prediction layer (MTP) of a known form: many conversions leave it out; name a drafter's files "
        "instead, or decode without one",
        catalogue_path(own->catalogue));
}

enum status draft_find_form(struct role_names *own, struct draft_request *request, struct error *err) {
    static const char *const prefixes[] = {"", "model."};
    *request = (struct draft_request){.form = DRAFT_EAGLE};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        (void)snprintf(own->prefix, sizeof own->prefix, "%s", prefixes[i]);
        (void)snprintf(own->layers, sizeof own->layers, "%slayers.", prefixes[i]);
        own->one_layer = false;
        if (has(own, ROLE_Q, 0) || has(own, ROLE_QKV, 0))
            break;
        (void)snprintf(own->layers, sizeof own->layers, "%smidlayer.", prefixes[i]);
        own->one_layer = true;
        if (has(own, ROLE_Q, 0) || has(own, ROLE_QKV, 0))
            break;
    }
    static const struct {
        const char *name;
        enum draft_form form;
    } forms[] = {{"pre_projection.weight", DRAFT_ASSISTANT}, {"input_proj.weight", DRAFT_ALONE}, {"fc.weight", DRAFT_EAGLE}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (catalogue_find(own->catalogue, text_of(forms[i].name))) {
            request->form = forms[i].form;
            request->hidden_first = request->form == DRAFT_ALONE;
            if (request->form == DRAFT_EAGLE && has(own, ROLE_DRAFT_HIDDEN_NORM, 0))
                request->form = DRAFT_EAGLE3;
            return STATUS_OK;
        }
    return error_set(err, STATUS_UNSUPPORTED,
                     "%s: no drafter of a known kind (EAGLE has fc.weight, a Gemma 4 assistant pre_projection.weight)",
                     catalogue_path(own->catalogue));
}

/* The layers that an EAGLE 3 drafter names, or an early, a middle and a late one. */
static void listed_layers(const struct catalogue *catalogue, uint32_t target_layers, struct feature_request *features) {
    static const char *const keys[] = {"eagle_aux_hidden_state_layer_ids", "eagle_config/eagle_aux_hidden_state_layer_ids"};
    int64_t layer;
    *features = (struct feature_request){.layer_count = 3, .layers = {2, target_layers / 2, target_layers - 3}};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        const struct meta_value *list = catalogue_meta(catalogue, keys[k]);
        if (!list || list->type != META_ARRAY || list->array.count == 0 || list->array.count > FEATURE_LAYERS_MAX)
            continue;
        features->layer_count = (uint32_t)list->array.count;
        for (uint32_t i = 0; i < features->layer_count; i++)
            features->layers[i] = meta_array_i64(list, i, &layer) && layer >= 0 && layer < target_layers ? (uint32_t)layer : UINT32_MAX;
    }
}

enum status draft_features(const struct draft_request *request, const struct catalogue *catalogue, uint32_t target_layers,
                           struct feature_request *features, struct error *err) {
    *features = (struct feature_request){.before_norm = request->before_norm};
    if (request->form != DRAFT_EAGLE3)
        return STATUS_OK;
    listed_layers(catalogue, target_layers, features);
    for (uint32_t i = 0; i < features->layer_count; i++)
        if (features->layers[i] >= target_layers)
            return error_set(err, STATUS_CORRUPT,
                             "%s: the drafter reads a layer that a target with %u layers has not: it belongs to another",
                             catalogue_path(catalogue), target_layers);
    return STATUS_OK;
}

/* ---- what comes in ---- */

static enum status set_entry(struct draft *d, struct plan_entry *entry, const char *name, uint32_t width, struct error *err) {
    *entry = (struct plan_entry){.width = width, .first_step = d->build.plan->step_count};
    return plan_add_buffer(d->build.plan, name, width, &entry->buffer, err);
}

/* y = W x [+ b]; *out is made unless it is there. */
static enum status emit_product(struct draft *d, enum role role, uint32_t in, uint32_t rows, uint32_t *out, struct error *err) {
    struct build *b = &d->build;
    struct plan_step step = plan_step_of(OP_MATMUL, -1);
    const struct bind_matrix_request request = {
        .role = role, .layer = d->request->layer, .rows = rows, .cols = b->plan->buffers[in].width, .fused = ROLE_COUNT};
    TRY(bind_matrix(b->binder, &request, &step.weight[0], err));
    TRY(bind_bias(b->binder, &request, &step.constant[0], err));
    if (*out == PLAN_NONE)
        TRY(plan_add_buffer(b->plan, role_name(role), rows, out, err));
    step.op.matmul.outputs = 1;
    step.in[0] = in;
    step.out[0] = *out;
    return plan_add_step(b->plan, &step, err);
}

static enum status emit_token(struct draft *d, struct error *err) {
    struct build *b = &d->build;
    struct binder *owner = b->binder;
    bool assistant = d->request->form == DRAFT_ASSISTANT, prediction = d->request->form == DRAFT_PREDICTION;
    d->token_role = prediction && bind_rows(owner, ROLE_DRAFT_EMBEDDING, d->request->layer) > 0 ? ROLE_DRAFT_EMBEDDING : ROLE_EMBEDDING;
    if (assistant || (d->token_role == ROLE_EMBEDDING && bind_rows(owner, ROLE_EMBEDDING, 0) == 0))
        owner = d->request->target;
    d->token_owner = owner;
    struct plan_step step = plan_step_of(OP_EMBED, -1);
    struct bind_matrix_request request = {.role = d->token_role,
                                          .layer = d->request->layer,
                                          .rows = bind_rows(owner, d->token_role, d->request->layer),
                                          .cols = assistant ? d->request->target_plan->hidden : b->hidden,
                                          .fused = ROLE_COUNT};
    if (request.rows < d->request->target_plan->embedded)
        return error_set(err, STATUS_UNSUPPORTED, "%s: the drafter knows %llu tokens, its target %u: they do not belong together",
                         catalogue_path(b->binder->catalogue), (unsigned long long)request.rows, d->request->target_plan->embedded);
    b->plan->embedded = (uint32_t)request.rows;
    TRY(bind_matrix(owner, &request, &step.weight[0], err));
    TRY(plan_add_buffer(b->plan, "token", (uint32_t)request.cols, &d->token, err));
    b->embedding_weight = step.weight[0];
    step.op.embed.scale = assistant || prediction ? build_embedding_scale(owner) : 1;
    step.out[0] = d->token;
    return plan_add_step(b->plan, &step, err);
}

/* Two buffers side by side: a new one. */
static enum status emit_pair(struct draft *d, uint32_t first, uint32_t second, uint32_t *out, struct error *err) {
    struct plan *plan = d->build.plan;
    uint32_t width = plan->buffers[first].width;
    TRY(plan_add_buffer(plan, "pair", width + plan->buffers[second].width, out, err));
    TRY(build_copy(&d->build, first, *out, 0, err));
    return build_copy(&d->build, second, *out, width, err);
}

/* Features of several layers become a vector as wide as the drafter; its own rows have one already. */
static enum status emit_layer_features(struct draft *d, struct error *err) {
    struct plan *plan = d->build.plan;
    TRY(set_entry(d, &plan->given, "given", d->request->target_plan->features_width, err));
    TRY(set_entry(d, &plan->own, "x", d->build.hidden, err));
    d->build.residual = plan->own.buffer;
    TRY(emit_product(d, ROLE_DRAFT_PROJECTION, plan->given.buffer, d->build.hidden, &d->build.residual, err));
    plan->own.first_step = plan->step_count;
    return emit_token(d, err);
}

static enum status emit_inputs(struct draft *d, struct error *err) {
    struct build *b = &d->build;
    const struct layer_context context = {.binder = b->binder, .layer = d->request->layer, .hidden = b->hidden};
    uint32_t pair;
    if (d->request->form == DRAFT_EAGLE3)
        return emit_layer_features(d, err);
    TRY(set_entry(d, &b->plan->given, "given", d->request->target_plan->features_width, err));
    b->plan->own = b->plan->given;
    uint32_t given = b->plan->given.buffer;
    TRY(emit_token(d, err));
    if (d->request->form == DRAFT_PREDICTION) {
        TRY(build_norm(b, &context, ROLE_DRAFT_TOKEN_NORM, d->token, &d->token, err));
        TRY(build_norm(b, &context, ROLE_DRAFT_HIDDEN_NORM, given, &given, err));
    }
    TRY(d->request->hidden_first ? emit_pair(d, given, d->token, &pair, err) : emit_pair(d, d->token, given, &pair, err));
    return emit_product(d, ROLE_DRAFT_PROJECTION, pair, b->hidden, &b->residual, err);
}

/* ---- layers ---- */

/* The target's last keys and values of each kind. */
static enum status share_target_states(struct draft *d, struct error *err) {
    const struct plan *target = d->request->target_plan;
    d->build.all_share = true;
    for (uint32_t s = 0; s < target->state_count; s++) {
        struct plan_state state = target->states[s];
        if (state.kind != STATE_KV)
            continue;
        uint32_t *place = &d->build.kv_states[state.window > 0];
        state.of_target = true;
        state.target_state = s;
        if (*place == PLAN_NONE)
            TRY(plan_add_state(d->build.plan, &state, place, err));
        else
            d->build.plan->states[*place] = state;
    }
    return STATUS_OK;
}

/* EAGLE's first layer: it has no norm, or reads the token beside x. */
static enum status emit_first_layer(struct draft *d, struct error *err) {
    struct build *b = &d->build;
    struct layer_context context;
    uint32_t in = b->residual, result;
    TRY(build_context(b, 0, &context, err));
    if (d->request->form == DRAFT_EAGLE3) {
        bool flag = false;
        (void)meta_bool(params_meta(b->binder->params, b->binder->catalogue, "norm_before_residual"), &flag);
        TRY(build_norm(b, &context, ROLE_ATTENTION_NORM, d->token, &d->token, err));
        in = PLAN_NONE;
        TRY(build_norm(b, &context, ROLE_DRAFT_HIDDEN_NORM, b->residual, &in, err));
        b->residual = flag ? in : b->residual;
        context.residual = b->residual;
        TRY(emit_pair(d, d->token, in, &in, err));
    }
    TRY(build_mixer_of(b, 0)(&context, in, &result, err));
    TRY(build_add(b, &context, result, err));
    return build_sublayer(b, &context, ROLE_FFN_NORM, ROLE_FFN_POST_NORM, build_ffn_of(b, 0), err);
}

static enum status emit_layers(struct draft *d, struct error *err) {
    struct build *b = &d->build;
    uint32_t layer = 0;
    if (d->request->form == DRAFT_PREDICTION)
        return build_layer(b, d->request->layer, err);
    if (d->request->form == DRAFT_ASSISTANT)
        TRY(share_target_states(d, err));
    if (d->request->form == DRAFT_EAGLE3 || bind_vector_size(b->binder, ROLE_ATTENTION_NORM, 0, ".weight") == 0) {
        TRY(emit_first_layer(d, err));
        layer++;
    }
    for (; layer < b->binder->params->layers; layer++)
        TRY(build_layer(b, layer, err));
    for (uint32_t s = 0; d->request->form == DRAFT_ASSISTANT && s < b->plan->step_count; s++)
        if (b->plan->steps[s].op.kind == OP_ROPE_TABLE)
            b->plan->steps[s].op.rope_table.offset = 1; /* it stands behind the keys that it reads */
    return STATUS_OK;
}

/* ---- what goes out ---- */

/* Which matrix makes logits: its own, its own table of tokens, the target's. */
static enum status find_head(struct draft *d, struct plan_step *step, struct error *err) {
    struct build *b = &d->build;
    struct binder *owner = b->binder, *target = d->request->target;
    bool prediction = d->request->form == DRAFT_PREDICTION;
    struct bind_matrix_request request = {.role = ROLE_HEAD, .layer = d->request->layer, .cols = b->hidden, .fused = ROLE_COUNT};
    if (prediction && bind_rows(owner, ROLE_DRAFT_HEAD, request.layer) > 0)
        request.role = ROLE_DRAFT_HEAD;
    else if (d->request->form == DRAFT_ALONE || d->request->form == DRAFT_ASSISTANT)
        request.role = ROLE_EMBEDDING;
    else if (prediction || bind_rows(owner, ROLE_HEAD, 0) == 0) {
        owner = target;
        request.role = build_is_tied(target) || bind_rows(target, ROLE_HEAD, 0) == 0 ? ROLE_EMBEDDING : ROLE_HEAD;
    }
    request.rows = bind_rows(owner, request.role, request.layer);
    if (request.rows == 0 || request.rows > 1u << 24)
        return bind_missing(owner, request.role, request.layer, err);
    b->vocab = (uint32_t)request.rows;
    if (request.role == d->token_role && owner == d->token_owner) {
        step->weight[0] = b->embedding_weight;
        return STATUS_OK;
    }
    if (b->embedding_weight != PLAN_NONE)
        b->plan->weights[b->embedding_weight].rows_only = true;
    TRY(bind_matrix(owner, &request, &step->weight[0], err));
    return bind_bias(owner, &request, &step->constant[0], err);
}

/* A drafter may know only the target's usual tokens. */
static enum status read_target_tokens(struct draft *d, struct error *err) {
    struct build *b = &d->build;
    uint32_t limit = d->request->target_plan->vocab;
    if (has(&b->binder->names, ROLE_DRAFT_TOKENS, 0)) {
        TRY(bind_read_ids(b->binder, ROLE_DRAFT_TOKENS, 0, b->vocab, limit, &b->plan->target_tokens, err));
        for (uint32_t i = 0; i < b->vocab; i++) {
            b->plan->target_tokens[i] += i;
            if (b->plan->target_tokens[i] >= limit)
                return error_set(err, STATUS_CORRUPT, "%s: d2t makes token %u of %u, which a target with %u tokens has not",
                                 catalogue_path(b->binder->catalogue), b->plan->target_tokens[i], i, limit);
        }
    } else if (b->vocab > limit) {
        return error_set(err, STATUS_UNSUPPORTED, "%s: the drafter's head knows %u tokens, its target %u: they do not belong together",
                         catalogue_path(b->binder->catalogue), b->vocab, limit);
    }
    return STATUS_OK;
}

/* Tokens outside of the likeliest clusters are put behind the others. */
static enum status emit_clusters(struct draft *d, uint32_t in, struct error *err) {
    struct build *b = &d->build;
    const struct catalogue *catalogue = b->binder->catalogue;
    uint64_t clusters = bind_rows(b->binder, ROLE_DRAFT_CLUSTERS, 0), kept = 0;
    if (clusters == 0)
        return STATUS_OK;
    (void)meta_u64(catalogue_meta(catalogue, "centroid_intermediate_top_k"), &kept);
    if (clusters > b->vocab || b->vocab % clusters != 0 || kept == 0 || kept > clusters)
        return error_set(err, STATUS_CORRUPT, "%s: %llu clusters of %u tokens, of which %llu are looked at (centroid_intermediate_top_k)",
                         catalogue_path(catalogue), (unsigned long long)clusters, b->vocab, (unsigned long long)kept);
    struct plan_step step = plan_step_of(OP_KEEP_CLUSTERS, -1);
    step.op.keep_clusters.clusters = (uint32_t)clusters;
    step.op.keep_clusters.kept = (uint32_t)kept;
    step.in[0] = PLAN_NONE;
    step.out[0] = b->plan->logits;
    TRY(emit_product(d, ROLE_DRAFT_CLUSTERS, in, (uint32_t)clusters, &step.in[0], err));
    uint32_t *ids;
    TRY(bind_read_ids(b->binder, ROLE_DRAFT_CLUSTER_TOKENS, 0, b->vocab, b->vocab, &ids, err));
    float *tokens = ids ? memory_alloc_array(b->vocab, sizeof *tokens) : NULL;
    for (uint32_t i = 0; tokens && i < b->vocab; i++)
        tokens[i] = (float)ids[i];
    enum status status = !ids     ? STATUS_OK /* missing, as bind_finish will say */
                         : tokens ? plan_add_constant(b->plan, tokens, b->vocab, &step.constant[0], err)
                                  : error_set(err, STATUS_NO_MEMORY, "no memory for the clusters of %u tokens", b->vocab);
    memory_free(ids);
    memory_free(tokens);
    return status == STATUS_OK ? plan_add_step(b->plan, &step, err) : status;
}

/* Features of the next row, and from what logits are made. */
static enum status emit_features(struct draft *d, uint32_t *headed, struct error *err) {
    struct build *b = &d->build;
    const struct layer_context context = {.binder = b->binder, .layer = d->request->layer, .hidden = b->hidden};
    enum role norm = bind_vector_size(b->binder, ROLE_DRAFT_NORM, context.layer, ".weight") > 0 ? ROLE_DRAFT_NORM : ROLE_FINAL_NORM;
    uint32_t normed = PLAN_NONE, features = PLAN_NONE;
    struct plan_step add = plan_step_of(OP_ADD, -1);
    bool before_norm = d->request->form == DRAFT_EAGLE3 || d->request->before_norm;
    switch (d->request->form) {
    case DRAFT_EAGLE:
        features = *headed = b->residual;
        break;
    case DRAFT_ALONE:
        TRY(build_norm(b, &context, norm, b->residual, &normed, err));
        TRY(emit_product(d, ROLE_DRAFT_OUT, normed, b->hidden, &features, err));
        add.in[0] = normed;
        add.out[0] = features;
        TRY(plan_add_step(b->plan, &add, err));
        *headed = features;
        break;
    case DRAFT_ASSISTANT:
        TRY(build_norm(b, &context, norm, b->residual, &normed, err));
        TRY(emit_product(d, ROLE_DRAFT_OUT, normed, d->request->target_plan->hidden, &features, err));
        *headed = normed;
        break;
    case DRAFT_EAGLE3:
    case DRAFT_PREDICTION:
    default:
        if (before_norm)
            TRY(build_select(b, b->residual, &features, err));
        TRY(build_norm(b, &context, norm, before_norm ? features : b->residual, &normed, err));
        features = before_norm ? b->residual : normed;
        *headed = normed;
    }
    b->plan->features = features;
    b->plan->features_width = b->plan->buffers[features].width;
    return before_norm ? STATUS_OK : build_select(b, *headed, headed, err);
}

enum status plan_draft_build(struct binder *binder, const struct draft_request *request, struct error *err) {
    struct draft d = {.request = request};
    struct plan_step head = plan_step_of(OP_MATMUL, -1);
    uint32_t headed;
    build_init(&d.build, binder);
    if (request->form == DRAFT_EAGLE && d.build.hidden != request->target_plan->hidden)
        return error_set(err, STATUS_UNSUPPORTED, "%s: the drafter is %u wide, its target %u: they do not belong together",
                         catalogue_path(binder->catalogue), d.build.hidden, request->target_plan->hidden);
    TRY(emit_inputs(&d, err));
    TRY(emit_layers(&d, err));
    TRY(emit_features(&d, &headed, err));
    TRY(find_head(&d, &head, err));
    TRY(bind_finish(binder, err));
    TRY(bind_finish(request->target, err));
    TRY(read_target_tokens(&d, err));
    TRY(build_logits(&d.build, &head, headed, err));
    TRY(emit_clusters(&d, headed, err));
    TRY(bind_finish(binder, err));
    binder->plan->layers = request->form == DRAFT_PREDICTION ? 1 : binder->params->layers;
    binder->plan->hidden = d.build.hidden;
    binder->plan->vocab = d.build.vocab;
    return plan_finish(binder->plan, err);
}
