// The kernels of the compiler's instruction set, under the name KERNELS. Empty if the macro ONLY_FOR
// names another machine than that of the build.
#if !defined(ONLY_FOR) || ONLY_FOR
#include "kernels.hpp"

#include "output/candidates.hpp"
#include "attention/dots.hpp"
#include "layers/dropout.hpp"
#include "output/entropy.hpp"
#include "layers/gates.hpp"
#include "attention/gradients.hpp"
#include "layers/integers.hpp"
#include "attention/mixing.hpp"
#include "layers/products.hpp"
#include "attention/scores.hpp"
#include "models/step_parts.hpp"

extern const Kernels KERNELS;
const Kernels KERNELS{
    LANES, weigh, differentiate_slice, differentiate_query, through_softmax,
    step,  back,   cross_entropy, cross_entropy_back,  attend,              attend_back,
    drop,  candidates,
    pack,  multiply, quantise, multiply_integers, normalise, mix, rotate, attend_to_positions,
};
#endif
