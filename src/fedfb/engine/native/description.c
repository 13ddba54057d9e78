/* What Python takes for granted about the kernel. Python compares it when it loads the kernel. */
#include "job.h"

#include <stddef.h>

typedef struct {
    const char *name, *kind; /* a name of NULL ends the list */
    double value;
} Fact;

#define KIND(value) _Generic((value), int64_t: "whole", double: "real", default: "pointer")
#define FIELD(type, name) {#type "." #name, KIND(((type *)0)->name), offsetof(type, name)}
#define JOB(name) FIELD(Job, name)
#define KERNEL(name) FIELD(Kernel, name)
#define SIZE(type) {#type, "bytes", sizeof(type)}
#define CONSTANT(name) {#name, "constant", name}

static const Fact facts[] = {
    SIZE(Job),
    JOB(runs), JOB(inputs), JOB(depth), JOB(sizes), JOB(features), JOB(slabs), JOB(wide), JOB(upper),
    JOB(x), JOB(stride), JOB(x_is_double), JOB(starts), JOB(columns), JOB(values), JOB(cell), JOB(groups),
    JOB(cell_weights), JOB(table), JOB(row_weights), JOB(all_rows),
    JOB(theta), JOB(gradient), JOB(mean), JOB(square), JOB(anchor), JOB(rates), JOB(pulls),
    JOB(weight_decay), JOB(adam), JOB(time), JOB(batch), JOB(total), JOB(scratch),
    JOB(clip), JOB(expected), JOB(noise),
    SIZE(Kernel),
    KERNEL(name), KERNEL(vector_bytes), KERNEL(scratch_bytes), KERNEL(train_epoch), KERNEL(add_gradient),
    KERNEL(add_losses), KERNEL(logits), KERNEL(count_nonzero), KERNEL(compress), KERNEL(train_private),
    KERNEL(add_curvature),
    CONSTANT(SIDE_BY_SIDE), CONSTANT(FEATURE_TILE), CONSTANT(FEW_INPUTS), CONSTANT(FEW_VECTORS), CONSTANT(MOST_VECTORS),
    CONSTANT(STEEPNESS), CONSTANT(BETA1), CONSTANT(BETA2), CONSTANT(EPSILON),
    CONSTANT(ZERO_ONE), CONSTANT(PROB), CONSTANT(CE), CONSTANT(LOGIT), CONSTANT(STEEP), CONSTANT(MISTAKE),
    CONSTANT(POSITIVE),
    {NULL, NULL, 0},
};

const Fact *fedfb_facts(void) { return facts; }
