/* core_no_driver.c: a program with the core library on a machine without a CUDA driver. */
#include <gpubudget/gpubudget.h>

#include <stdio.h>

int main(void)
{
    gpubudget_resource_t *resource = NULL;
    gpubudget_status_t status =
        gpubudget_driver_resource_new(0, GPUBUDGET_CHARGE_FOOTPRINT, &resource);

    if (status != GPUBUDGET_NO_DRIVER || resource) {
        printf("not ok no-driver: %s\n", gpubudget_status_string(status));
        return 1;
    }
    puts("ok no-driver");
    return 0;
}
