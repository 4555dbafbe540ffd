// The words of a run's enums, as they stand in its file, in its canonical text and in sentences to the user: one table
// for each enum, in the order in which the words are listed to the user. A stored run names its values by these words:
// none of them is ever renamed or removed.
#ifndef GRADSTREAM_SERVER_RUN_NAMES_H_
#define GRADSTREAM_SERVER_RUN_NAMES_H_

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/manifold/manifold.h"
#include "runtime/manifold/proximal_form.h"
#include "runtime/training/encoding.h"
#include "runtime/training/secant.h"
#include "runtime/training/stream.h"
#include "runtime/training/task.h"
#include "server/base/enum_names.h"
#include "server/run/choices.h"

namespace gradstream {

template <>
inline constexpr auto kEnumNames<ManifoldId> =
    std::to_array<EnumName<ManifoldId>>({{"euclidean", ManifoldId::kEuclidean},
                                         {"sphere", ManifoldId::kSphere},
                                         {"stiefel", ManifoldId::kStiefel},
                                         {"oblique", ManifoldId::kOblique},
                                         {"grassmann", ManifoldId::kGrassmann},
                                         {"spd", ManifoldId::kSpd},
                                         {"hyperbolic", ManifoldId::kHyperbolic},
                                         {"fixed_rank", ManifoldId::kFixedRank},
                                         {"product", ManifoldId::kProduct}});
template <>
inline constexpr auto kEnumNames<RetractionKind> =
    std::to_array<EnumName<RetractionKind>>({{"default", RetractionKind::kDefault},
                                             {"polar", RetractionKind::kPolar},
                                             {"qr", RetractionKind::kQr},
                                             {"projection", RetractionKind::kProjection},
                                             {"exponential", RetractionKind::kExponential},
                                             {"second_order", RetractionKind::kSecondOrder},
                                             {"polar_formal", RetractionKind::kPolarFormal}});
template <>
inline constexpr auto kEnumNames<TransportKind> =
    std::to_array<EnumName<TransportKind>>({{"default", TransportKind::kDefault},
                                            {"projection", TransportKind::kProjection},
                                            {"parallel", TransportKind::kParallel},
                                            {"smooth", TransportKind::kSmooth},
                                            {"householder", TransportKind::kHouseholder},
                                            {"unaligned", TransportKind::kUnaligned}});
template <>
inline constexpr auto kEnumNames<SolverId> =
    std::to_array<EnumName<SolverId>>({{"projection", SolverId::kProjection},
                                       {"gradient_stream", SolverId::kGradientStream},
                                       {"tangent_mean", SolverId::kTangentMean},
                                       {"svrg", SolverId::kSvrg},
                                       {"curve", SolverId::kCurve}});
template <>
inline constexpr auto kEnumNames<EstimatorId> =
    std::to_array<EnumName<EstimatorId>>({{"analytic_gradient", EstimatorId::kAnalyticGradient},
                                          {"projection_one_sided", EstimatorId::kProjectionOneSided},
                                          {"projection_two_sided", EstimatorId::kProjectionTwoSided},
                                          {"tangent_retraction", EstimatorId::kTangentRetraction},
                                          {"projection_tangent", EstimatorId::kProjectionTangent}});
template <>
inline constexpr auto kEnumNames<DirectionKind> =
    std::to_array<EnumName<DirectionKind>>({{"sign", DirectionKind::kSign}, {"sphere", DirectionKind::kSphere}});
template <>
inline constexpr auto kEnumNames<BatchMode> = std::to_array<EnumName<BatchMode>>(
    {{"all", BatchMode::kAll}, {"common", BatchMode::kCommon}, {"per_direction", BatchMode::kPerDirection}});
template <>
inline constexpr auto kEnumNames<StreamKind> = std::to_array<EnumName<StreamKind>>(
    {{"auto", StreamKind::kNone}, {"scalar", StreamKind::kScalarStream}, {"tangent", StreamKind::kTangentBlock}});
template <>
inline constexpr auto kEnumNames<Encoding> = std::to_array<EnumName<Encoding>>(
    {{"f32", Encoding::kF32}, {"bf16", Encoding::kBf16}, {"int8", Encoding::kInt8}, {"f64", Encoding::kF64}});
template <>
inline constexpr auto kEnumNames<FoldWeight> = std::to_array<EnumName<FoldWeight>>(
    {{"uniform", FoldWeight::kUniform}, {"sample_count", FoldWeight::kSampleCount}});
template <>
inline constexpr auto kEnumNames<ClipNorm> = std::to_array<EnumName<ClipNorm>>({{"none", ClipNorm::kNone},
                                                                                {"fixed", ClipNorm::kFixed},
                                                                                {"median", ClipNorm::kMedian},
                                                                                {"trailing", ClipNorm::kTrailing}});
template <>
inline constexpr auto kEnumNames<CorrectionForm> =
    std::to_array<EnumName<CorrectionForm>>({{"none", CorrectionForm::kNone},
                                             {"local", CorrectionForm::kLocal},
                                             {"memory", CorrectionForm::kMemory},
                                             {"unbiased", CorrectionForm::kUnbiased}});
template <>
inline constexpr auto kEnumNames<ProximalForm> =
    std::to_array<EnumName<ProximalForm>>({{"geodesic", ProximalForm::kGeodesic},
                                           {"chordal", ProximalForm::kChordal},
                                           {"lorentzian", ProximalForm::kLorentz},
                                           {"distance", ProximalForm::kDistance}});
template <>
inline constexpr auto kEnumNames<Participation> = std::to_array<EnumName<Participation>>(
    {{"all", Participation::kAll}, {"scheme_1", Participation::kSchemeOne}, {"scheme_2", Participation::kSchemeTwo}});
template <>
inline constexpr auto kEnumNames<ParticipationWeights> =
    std::to_array<EnumName<ParticipationWeights>>({{"counted", ParticipationWeights::kCounted},
                                                   {"true", ParticipationWeights::kTrue},
                                                   {"biased", ParticipationWeights::kBiased}});
template <>
inline constexpr auto kEnumNames<StepRule> = std::to_array<EnumName<StepRule>>({{"inverse", StepRule::kInverse},
                                                                                {"fixed", StepRule::kFixed},
                                                                                {"printed", StepRule::kPrinted},
                                                                                {"code", StepRule::kCode},
                                                                                {"harmonic", StepRule::kHarmonic},
                                                                                {"barzilai_borwein",
                                                                                 StepRule::kBarzilaiBorwein}});
template <>
inline constexpr auto kEnumNames<BarzilaiBorwein> = std::to_array<EnumName<BarzilaiBorwein>>(
    {{"none", BarzilaiBorwein::kNone}, {"first", BarzilaiBorwein::kFirst}, {"second", BarzilaiBorwein::kSecond}});
template <>
inline constexpr auto kEnumNames<Iterate> = std::to_array<EnumName<Iterate>>({{"last", Iterate::kLast},
                                                                              {"uniform", Iterate::kUniform}});
template <>
inline constexpr auto kEnumNames<DelayRule> =
    std::to_array<EnumName<DelayRule>>({{"none", DelayRule::kNone},
                                        {"asgd", DelayRule::kAsgd},
                                        {"fedasync", DelayRule::kFedAsync},
                                        {"dc_asgd", DelayRule::kDcAsgd},
                                        {"dc_adaptive", DelayRule::kDcAdaptive},
                                        {"dc_rank1", DelayRule::kDcRank1},
                                        {"ortho_grad", DelayRule::kOrthoGrad},
                                        {"ortho_pos", DelayRule::kOrthoPos},
                                        {"ortho_strict", DelayRule::kOrthoStrict}});
template <>
inline constexpr auto kEnumNames<DelaySwitchBy> =
    std::to_array<EnumName<DelaySwitchBy>>({{"version", DelaySwitchBy::kVersion},
                                            {"cosine", DelaySwitchBy::kCosine},
                                            {"drift_ratio", DelaySwitchBy::kDriftRatio}});
template <>
inline constexpr auto kEnumNames<Centre> = std::to_array<EnumName<Centre>>({{"none", Centre::kNone},
                                                                            {"federated", Centre::kFederated}});
template <>
inline constexpr auto kEnumNames<UnitScale> = std::to_array<EnumName<UnitScale>>({{"none", UnitScale::kNone},
                                                                                  {"common", UnitScale::kCommon},
                                                                                  {"deviation", UnitScale::kDeviation},
                                                                                  {"range", UnitScale::kRange}});
template <>
inline constexpr auto kEnumNames<LatePolicy> = std::to_array<EnumName<LatePolicy>>({{"drop", LatePolicy::kDrop},
                                                                                    {"weight", LatePolicy::kWeight}});
template <>
inline constexpr auto kEnumNames<Work> = std::to_array<EnumName<Work>>({{"fixed", Work::kFixed},
                                                                        {"timed", Work::kTimed}});
template <>
inline constexpr auto kEnumNames<StalenessTable> =
    std::to_array<EnumName<StalenessTable>>({{"constant", StalenessTable::kConstant},
                                             {"inverse_sqrt", StalenessTable::kInverseSqrt},
                                             {"polynomial", StalenessTable::kPolynomial},
                                             {"hinge", StalenessTable::kHinge}});

// The retractions and transports of a manifold for a sentence: "polar with projection, qr with projection, ...".
std::string variants_of(ManifoldId id);

// Letters that are added, removed or exchanged to make one word of the other.
size_t edit_distance(std::string_view a, std::string_view b);

// The known word that takes the fewest edits to become `word`. There is at least one known word.
std::string nearest_of(std::string_view word, const std::vector<std::string>& known);

// The known word that `word` is a slip of the fingers away from; empty where none is so near, as to name another would
// mislead. There is at least one known word.
std::string slip_of(std::string_view word, const std::vector<std::string>& known);

// Of a name that no problem of the library has: that, and the name that may have been meant; else empty. Devices may
// bring a problem of their own, of which the server knows the name alone.
std::string builtin_problem_hint(const std::string& name);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_NAMES_H_
