/*
 * look.h: when a budget looks for what the driver has taken by itself.
 */
#ifndef GB_RESOURCE_LOOK_H
#define GB_RESOURCE_LOOK_H

#include "resource/budget.h"

/*
 * The driver takes memory by itself, with the launches between two requests. It is looked for
 * before it could matter: when what has been granted since the last look, or would be now, is a
 * good part of what is left. So far from the limit it costs nothing to speak of, and close to
 * it every grant looks.
 */
bool gb_budget_look_is_due(struct gpubudget_budget *budget, const gpubudget_request_t *request,
                           uint64_t most);

#endif
