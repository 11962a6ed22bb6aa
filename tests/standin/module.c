/* Modules. */
#include "sim.h"

void sim_module_end(struct sim_module *module)
{
    module->context->modules = module->next;
    free(module);
}
