/*
 * hf_config: config.json and generation_config.json as flat metadata, keys as catalogue.h says.
 */
#pragma once

#include "format/catalogue_internal.h"

/* config.json must be there; generation_config.json may. */
MUST_CHECK enum status hf_config_load(struct catalogue *catalogue, const char *directory, struct error *err);
