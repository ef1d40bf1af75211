/* Stubs: functions that look at a call and then jump on with the caller's arguments and return
 * address untouched. C cannot write them: dlsym(RTLD_NEXT, ...) goes by the return address, a
 * refused driver function may have any signature, and compilers copy all eleven arguments of a launch
 * only to put them back.
 *
 *   RF_STUB_ARGS(name, decide)    struct rf_way decide(first three arguments)
 *   RF_STUB_NAME(name, decide)    struct rf_way decide("name")
 *   RF_STUB_LAUNCH(name, decide)  struct rf_way decide(first four arguments, ninth argument) */
#ifndef RF_FENCE_STUB_H
#define RF_FENCE_STUB_H

#if defined(__x86_64__)
#define RF_STUB_PUSH(reg) "pushq " reg "\n.cfi_adjust_cfa_offset 8\n"
#define RF_STUB_POP(reg) "popq " reg "\n.cfi_adjust_cfa_offset -8\n"
#define RF_STUB_BODY(name, load, decide)                                                           \
	__asm__(".text\n"                                                                          \
		".p2align 4\n"                                                                     \
		".globl " #name "\n"                                                               \
		".type " #name ",@function\n" #name ":\n"                                          \
		".cfi_startproc\n"                                                                 \
		"endbr64\n"                                                                        \
		RF_STUB_PUSH("%rdi")                                                               \
		RF_STUB_PUSH("%rsi")                                                               \
		RF_STUB_PUSH("%rdx")                                                               \
		RF_STUB_PUSH("%rcx")                                                               \
		RF_STUB_PUSH("%r8")                                                                \
		RF_STUB_PUSH("%r9")                                                                \
		"subq $8, %rsp\n"                                                                  \
		".cfi_adjust_cfa_offset 8\n" load "call " #decide "\n"                             \
		"addq $8, %rsp\n"                                                                  \
		".cfi_adjust_cfa_offset -8\n"                                                      \
		RF_STUB_POP("%r9")                                                                 \
		RF_STUB_POP("%r8")                                                                 \
		RF_STUB_POP("%rcx")                                                                \
		"movq %rdx, %r11\n"                                                                \
		RF_STUB_POP("%rdx")                                                                \
		RF_STUB_POP("%rsi")                                                                \
		RF_STUB_POP("%rdi")                                                                \
		"testq %rax, %rax\n"                                                               \
		"je 1f\n"                                                                          \
		"jmp *%rax\n"                                                                      \
		"1: movq %r11, %rax\n"                                                             \
		"ret\n"                                                                            \
		".cfi_endproc\n"                                                                   \
		"2: .asciz \"" #name "\"\n"                                                        \
		".size " #name ", . - " #name "\n");
#define RF_STUB_NAME(name, decide) RF_STUB_BODY(name, "leaq 2f(%rip), %rdi\n", decide)
#define RF_STUB_LAUNCH(name, decide) RF_STUB_BODY(name, "movq 80(%rsp), %r8\n", decide)
#elif defined(__aarch64__)
#define RF_STUB_BODY(name, load, decide)                                                           \
	__asm__(".text\n"                                                                          \
		".p2align 4\n"                                                                     \
		".globl " #name "\n"                                                               \
		".type " #name ",%function\n" #name ":\n"                                          \
		".cfi_startproc\n"                                                                 \
		"hint #34\n"                                                                       \
		"stp x29, x30, [sp, #-96]!\n"                                                      \
		".cfi_def_cfa_offset 96\n"                                                         \
		".cfi_offset 29, -96\n"                                                            \
		".cfi_offset 30, -88\n"                                                            \
		"mov x29, sp\n"                                                                    \
		"stp x0, x1, [sp, #16]\n"                                                          \
		"stp x2, x3, [sp, #32]\n"                                                          \
		"stp x4, x5, [sp, #48]\n"                                                          \
		"stp x6, x7, [sp, #64]\n"                                                          \
		"str x8, [sp, #80]\n" load "bl " #decide "\n"                                      \
		"mov x16, x0\n"                                                                    \
		"mov x17, x1\n"                                                                    \
		"ldp x0, x1, [sp, #16]\n"                                                          \
		"ldp x2, x3, [sp, #32]\n"                                                          \
		"ldp x4, x5, [sp, #48]\n"                                                          \
		"ldp x6, x7, [sp, #64]\n"                                                          \
		"ldr x8, [sp, #80]\n"                                                              \
		"ldp x29, x30, [sp], #96\n"                                                        \
		".cfi_def_cfa_offset 0\n"                                                          \
		".cfi_restore 29\n"                                                                \
		".cfi_restore 30\n"                                                                \
		"cbz x16, 1f\n"                                                                    \
		"br x16\n"                                                                         \
		"1: mov x0, x17\n"                                                                 \
		"ret\n"                                                                            \
		".cfi_endproc\n"                                                                   \
		"2: .asciz \"" #name "\"\n"                                                        \
		".p2align 2\n"                                                                     \
		".size " #name ", . - " #name "\n");
#define RF_STUB_NAME(name, decide) RF_STUB_BODY(name, "adr x0, 2f\n", decide)
#define RF_STUB_LAUNCH(name, decide) RF_STUB_BODY(name, "ldr x4, [sp, #96]\n", decide)
#else
#error "libringfence is written for x86-64 and arm64"
#endif

#define RF_STUB_ARGS(name, decide) RF_STUB_BODY(name, "", decide)

#endif
