// What an image may leave out of its client, beside what its registry does not name (firmware/registry.cc). The CMake
// list GS_WITHOUT names it, in the preset or on the command line. A host leaves out nothing.
//
// A device says in its Hello what its image lacks. It gets no task of a run that needs it, and the server's log names
// it. ./run footprint measures what each is worth; boards/README.md has the table.
//
//   units        kTakesUnits (config.h)      units of samples, stages before training, lines
//   batches      kKeepsBatches (config.h)    what a problem keeps of a batch between evaluations
//   evaluation   kEvaluates (metric.h)       models evaluated on samples held out
//   use          kUsesModel (application.h)  gs_score() and the rest of docs/use_model.md
//   tensors      kSendsTensors               updates that are tensors, and with them error feedback
//   memory       kRemembers                  correction_form memory and unbiased
//   products     kHasProducts                products of manifolds, and matrices of fixed rank
//   encodings    kCodesShort                 bf16 and int8
//   along        kKnowsLossesAlong (along.h) losses along directions without displaced points
//   bytes        kTakesBytes (byte_products.h)  losses over bytes in whole numbers
#ifndef GRADSTREAM_RUNTIME_BASE_FEATURES_H_
#define GRADSTREAM_RUNTIME_BASE_FEATURES_H_

namespace gradstream {

#if defined(GS_WITHOUT_TENSORS)
inline constexpr bool kSendsTensors = false;
#else
inline constexpr bool kSendsTensors = true;
#endif

#if defined(GS_WITHOUT_MEMORY)
inline constexpr bool kRemembers = false;
#else
inline constexpr bool kRemembers = true;
#endif

// Whether a version may have a mean beside its model: the memory has one, and updates that are tensors.
inline constexpr bool kHoldsMeans = kRemembers || kSendsTensors;

#if defined(GS_WITHOUT_PRODUCTS)
inline constexpr bool kHasProducts = false;
#else
inline constexpr bool kHasProducts = true;
#endif

#if defined(GS_WITHOUT_ENCODINGS)
inline constexpr bool kCodesShort = false;
#else
inline constexpr bool kCodesShort = true;
#endif

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_BASE_FEATURES_H_
