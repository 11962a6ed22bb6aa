/*
 * dlsym_aarch64.S: the exported dlsym and dlvsym.
 *
 * In: x0 handle, x1 name, x2 version (dlvsym), x30 return address. The decision comes back in x0
 * (where to jump, or 0) and x1 (the answer). `bti c` is a hint that older processors skip; x16
 * may be jumped through into code that demands it.
 */
        .text

        .macro entry name, export, route, caller
        .globl  \name
        .type   \name, %function
        .globl  \export
        .hidden \export
        .balign 16
\name:
\export:
        .cfi_startproc
        hint    #34                             /* bti c */
        stp     x29, x30, [sp, #-48]!
        .cfi_def_cfa_offset 48
        .cfi_offset 29, -48
        .cfi_offset 30, -40
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        str     x2, [sp, #32]
        mov     \caller, x30
        bl      \route
        cbz     x0, 1f
        mov     x16, x0
        .cfi_remember_state
        ldr     x2, [sp, #32]
        ldp     x0, x1, [sp, #16]
        ldp     x29, x30, [sp], #48
        .cfi_restore 29
        .cfi_restore 30
        .cfi_def_cfa_offset 0
        br      x16
1:
        .cfi_restore_state
        mov     x0, x1
        ldp     x29, x30, [sp], #48
        .cfi_restore 29
        .cfi_restore 30
        .cfi_def_cfa_offset 0
        ret
        .cfi_endproc
        .size   \name, . - \name
        .endm

        .hidden gb_dlsym_route
        .hidden gb_dlvsym_route
        entry   dlsym, gb_dlsym_export, gb_dlsym_route, x2
        entry   dlvsym, gb_dlvsym_export, gb_dlvsym_route, x3

        .section .note.GNU-stack, "", %progbits
