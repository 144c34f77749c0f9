// The kernels of the compiler's instruction set, under the name KERNELS. Empty if the macro ONLY_FOR
// names another machine than that of the build.
#if !defined(ONLY_FOR) || ONLY_FOR
#include "kernels.hpp"

#include "candidates.hpp"
#include "dots.hpp"
#include "dropout.hpp"
#include "entropy.hpp"
#include "gates.hpp"
#include "gradients.hpp"
#include "integers.hpp"
#include "mixing.hpp"
#include "products.hpp"
#include "scores.hpp"
#include "step_parts.hpp"

extern const Kernels KERNELS;
const Kernels KERNELS{
    LANES, weigh, differentiate_slice, differentiate_query, through_softmax,
    step,  back,   cross_entropy, cross_entropy_back,  attend,              attend_back,
    drop,  candidates,
    pack,  multiply, quantise, multiply_integers, normalise, mix, rotate, attend_to_positions,
};
#endif
