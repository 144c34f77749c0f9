// The kernels, for the instruction set that the compiler is told and under the name KERNELS; nothing if
// the macro ONLY_FOR names another machine than the compiler builds for.
#if !defined(ONLY_FOR) || ONLY_FOR
#include "kernels.hpp"

#include "candidates.hpp"
#include "dots.hpp"
#include "dropout.hpp"
#include "entropy.hpp"
#include "gates.hpp"
#include "gradients.hpp"
#include "scores.hpp"

extern const Kernels KERNELS;
const Kernels KERNELS{
    LANES, weigh, differentiate_slice, differentiate_query, through_softmax,
    step,  back,   cross_entropy, cross_entropy_back,  attend,              attend_back,
    drop,  candidates,
};
#endif
