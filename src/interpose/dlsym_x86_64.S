/*
 * dlsym_x86_64.S: the exported dlsym and dlvsym.
 *
 * In: rdi handle, rsi name, rdx version (dlvsym), return address on the stack. Only registers
 * that hold arguments are kept; the rest is the callee's by the ABI. The decision comes back in
 * rax (where to jump, or 0) and rdx (the answer).
 */
        .text

        .macro entry name, export, route, caller
        .globl  \name
        .type   \name, @function
        .globl  \export
        .hidden \export
        .balign 16
\name:
\export:
        .cfi_startproc
        endbr64
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        pushq   %rdx
        .cfi_adjust_cfa_offset 8
        movq    24(%rsp), \caller
        call    \route
        testq   %rax, %rax
        jz      1f
        movq    %rax, %r11
        .cfi_remember_state
        popq    %rdx
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        jmp     *%r11
1:
        .cfi_restore_state
        movq    %rdx, %rax
        addq    $24, %rsp
        .cfi_adjust_cfa_offset -24
        ret
        .cfi_endproc
        .size   \name, . - \name
        .endm

        .hidden gb_dlsym_route
        .hidden gb_dlvsym_route
        entry   dlsym, gb_dlsym_export, gb_dlsym_route, %rdx
        entry   dlvsym, gb_dlvsym_export, gb_dlvsym_route, %rcx

        .section .note.GNU-stack, "", @progbits
