// Every limit of gradstream: each has a name, a unit and a reason; relations between limits are static_asserts.
//
// A limit stands here when it shapes memory or the wire. Per-board sums of RAM stand in the board's board_config.h.
#ifndef GRADSTREAM_RUNTIME_BASE_CONFIG_H_
#define GRADSTREAM_RUNTIME_BASE_CONFIG_H_

#include <cstddef>
#include <cstdint>

namespace gradstream {

// The scalar of the runtime. float is the product: every replica computes in it, bit for bit. The double build
// (host only, GS_REAL_DOUBLE) replays reference trajectories and is never linked into a product.
#if defined(GS_REAL_DOUBLE)
using Real = double;
#else
using Real = float;
#endif

// Whether the members are linked that only hosts call: distances, random points, geodesics, directions on the sphere.
// Reason: they take libm, 8 KB of a board's flash that no run reaches there.
#if defined(GS_BARE_METAL)
inline constexpr bool kHasHostMembers = false;
#else
inline constexpr bool kHasHostMembers = true;
#endif

// Whether a problem may keep something of a batch from one evaluation to the next (Batch::kept). Reason: k-PCA keeps
// nothing, and an image may leave it out (features.h).
#if defined(GS_WITHOUT_BATCHES)
inline constexpr bool kKeepsBatches = false;
#else
inline constexpr bool kKeepsBatches = true;
#endif

// Whether samples may have units taken out, and whether the client knows the stages before training (Registry::stages).
// Reason: they take 7 KB of flash, which an image may leave out (features.h).
#if defined(GS_WITHOUT_UNITS)
inline constexpr bool kTakesUnits = false;
#else
inline constexpr bool kTakesUnits = true;
#endif

// ---- The model -------------------------------------------------------------------------------------------------

// Rows and columns of a point, each. Reason: 2^15 keeps rows * cols inside 32 bits.
inline constexpr uint32_t kDimensionMax = 32768;
// Columns of a Stiefel or Grassmann point. Reason: its polar factor works on a cols x cols matrix kept in scratch.
inline constexpr uint32_t kStiefelColsMax = 64;

// Rows (and columns) of a symmetric positive definite point. Reason: its operations keep four such matrices in scratch,
// and an eigen-decomposition by Jacobi rotations grows with the cube.
inline constexpr uint32_t kSpdRowsMax = 64;

// Rank of a fixed-rank point. Reason: its retraction decomposes a core of twice this order.
inline constexpr uint32_t kFixedRankMax = 32;
// Numbers of a product, which are the rows of its one column. Reason: 64 MB in f32, of which a server's queue takes a
// snapshot in its chunks; each part keeps its own limits.
inline constexpr uint32_t kProductSizeMax = 1U << 24;
// Parts of a product. Reason: Welcome carries them all in one frame, and a device keeps the list.
inline constexpr uint32_t kPartCountMax = 8;

// ---- Local work ------------------------------------------------------------------------------------------------

// Local steps of one task. Reason: with kDirectionCountMax it bounds the scalars of one update.
inline constexpr uint32_t kLocalStepCountMax = 256;
// Directions of one zeroth-order estimate. Reason: as above.
inline constexpr uint32_t kDirectionCountMax = 1024;
// Scalars (steps x directions) of one update. Reason: 16 KiB in f32, 22 frames; beyond it a TangentBlock is shorter.
inline constexpr uint32_t kScalarCountMax = 4096;
// A value of an update in fixed point, |round(value * 2^fold_scale_log2)|, is below 2^this. Reason: a sum of exact
// words holds it on a device, and a product with a weight fits 64 bits on the server.
inline constexpr unsigned kFoldValueBits = 31;
// Samples of one minibatch. Reason: its index list stands in scratch, 2 bytes each on a board.
inline constexpr uint32_t kBatchSizeMax = 4096;
// Minibatch sizes that a task may name, one for each of its first local steps. Reason: each takes 4 bytes of every
// Task; the works let the batch grow over the first few steps.
inline constexpr uint32_t kBatchScheduleMax = 8;
// Samples of one device. Reason: sample indices and fold weights are unsigned 16 bits.
inline constexpr uint32_t kSampleCountMax = 65535;
// Longest name of a problem on the wire, bytes without the final zero. Reason: every Task carries the name.
inline constexpr size_t kProblemNameSizeMax = 15;

// ---- The wire --------------------------------------------------------------------------------------------------

// One frame with its prefix, bytes. Reason: with kFrameSizeMax <= 1,024 one frame is one TLS record on a board whose
// record buffers are 1,024 bytes (record_size_limit, RFC 8449). The double build, which no board runs, has two losses
// of 8 bytes in an update.
inline constexpr size_t kFrameSizeMax = sizeof(Real) == sizeof(float) ? 1000 : 1008;
// Magic (2) and payload length (2), bytes.
inline constexpr size_t kFramePrefixSize = 4;
// One encoded message, bytes.
inline constexpr size_t kMessageSizeMax = kFrameSizeMax - kFramePrefixSize;
// Tensor or scalar bytes carried by one message. Reason: leaves 100 bytes for the message's other fields.
inline constexpr size_t kPayloadSizeMax = 896;
static_assert(kPayloadSizeMax + 100 <= kMessageSizeMax);
static_assert(kPayloadSizeMax % 32 == 0, "an int8 block of 32 values never straddles two frames of whole blocks");

// ---- Time: at most ten named limits, all in milliseconds; every state of either end names the one it uses ---------

// CONNECT: transport open and TLS handshake. Reason: an M0+ needs about 2.3 s of handshake arithmetic.
inline constexpr uint32_t kHandshakeDeadlineMs = 10000;
// HELLO, SYNC, UPLOAD: an answer to what this end has just sent. Reason: a server commits within store_delay_ms.
inline constexpr uint32_t kAnswerDeadlineMs = 10000;
// A frame begun must be complete. Reason: 1,000 bytes take 1 s at 9,600 baud.
inline constexpr uint32_t kFrameDeadlineMs = 5000;
// A link that cannot dial is discarded until it has been quiet for so long before a new handshake.
// Reason: longer than any gap inside a flight of the peer, shorter than a retry window.
inline constexpr uint32_t kLinkQuietMs = 200;
// On such a link a ClientHello that not a single byte answers for so long is lost, and the handshake begins again.
// Reason: several times what a server takes to answer, far below kHandshakeDeadlineMs.
inline constexpr uint32_t kLinkSilenceMs = 2000;
static_assert(kLinkQuietMs + kLinkSilenceMs < kHandshakeDeadlineMs);
// A device that the server has refused is told to stay away for at least so long. Reason: it comes back for nothing
// until somebody changes its image, its identity or the run; a handshake a second is what that may cost a server.
inline constexpr uint32_t kRefusedRetryMinMs = 1000;
// A device keeps its session open across a wait that is at most so long. Reason: a handshake costs more than this idle.
inline constexpr uint32_t kSessionKeepMs = 2000;

// Whether this is a board's image. Then what only tells people more is left out: sentences with numbers, and a look at
// all samples before the first task. The server's log has the reason. Reason: they take 1.7 KB of flash.
#if defined(GS_BARE_METAL)
inline constexpr bool kIsBareMetal = true;
#else
inline constexpr bool kIsBareMetal = false;
#endif

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_BASE_CONFIG_H_
