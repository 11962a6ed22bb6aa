/* Prints, for each setting, the lines with which its item in gpubudget(7) must begin. */
#include "config/settings.h"

#include <stdio.h>

int main(void)
{
    size_t count;
    const struct gb_setting *table = gb_settings_table(&count);
    for (size_t i = 0; i < count; i++) {
        const struct gb_setting *setting = &table[i];
        char first = setting->help[0];
        if (first >= 'a' && first <= 'z')
            first = (char)(first - 'a' + 'A');
        printf(".It Ev %s%s=%s\n", GB_SETTINGS_PREFIX, setting->name, setting->form);
        printf("%c%s.\n", first, setting->help + 1);
        if (setting->default_text[0])
            printf("Default: %s.\n", setting->default_text);
        else
            puts("No default.");
        if (!setting->effective && setting->type != GB_SETTING_IGNORED)
            puts("Checked, but without effect in this version; one line says so.");
    }
    return 0;
}
