// Sixteen independent chains of one three-operand instruction, x = x * y + z, in one asm block: apart from each other
// the compiler would put waits between the instructions, pack them, or leave some out.
#include "portable.h"

#define STEP16(I, Y, Z) \
  I " %0, %0, " Y ", " Z ";\n" I " %1, %1, " Y ", " Z ";\n" I " %2, %2, " Y ", " Z ";\n" I " %3, %3, " Y ", " Z ";\n" \
  I " %4, %4, " Y ", " Z ";\n" I " %5, %5, " Y ", " Z ";\n" I " %6, %6, " Y ", " Z ";\n" I " %7, %7, " Y ", " Z ";\n" \
  I " %8, %8, " Y ", " Z ";\n" I " %9, %9, " Y ", " Z ";\n" I " %10, %10, " Y ", " Z ";\n" I " %11, %11, " Y ", " Z ";\n" \
  I " %12, %12, " Y ", " Z ";\n" I " %13, %13, " Y ", " Z ";\n" I " %14, %14, " Y ", " Z ";\n" I " %15, %15, " Y ", " Z ";\n"
#define CHAINS(C, x) \
  "+" C(x[0]), "+" C(x[1]), "+" C(x[2]), "+" C(x[3]), "+" C(x[4]), "+" C(x[5]), "+" C(x[6]), "+" C(x[7]), \
  "+" C(x[8]), "+" C(x[9]), "+" C(x[10]), "+" C(x[11]), "+" C(x[12]), "+" C(x[13]), "+" C(x[14]), "+" C(x[15])
#define STEP(I, C, x, y, z) asm volatile(STEP16(I, "%16", "%17") : CHAINS(C, x) : C(y), C(z))

#if AMD
#define PICK(amd, nvidia) amd
#else
#define PICK(amd, nvidia) nvidia
#endif
