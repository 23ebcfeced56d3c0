/*
 * model_identity: which file of which model this is, from its headers alone.
 */
#pragma once

#include <stdint.h>

#include "format/catalogue.h"

/* A hash of names, formats, shapes and places of all tensors: another file of the same model is another one here. */
void model_identity(const struct catalogue *catalogue, uint8_t identity[32]);
