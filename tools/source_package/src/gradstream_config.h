/* The configuration of the source package: what a build system would say by flags stands here.
 *
 * Every file of the package that asks for one of these includes this header first. Headers read it too, so a C++ file
 * of the application sees types of the same size as the package. Change it here, and compile all of the package anew.
 * The precompiled package has it for the headers alone: its libraries are compiled already, so change nothing there.
 */
#ifndef GRADSTREAM_CONFIG_H_
#define GRADSTREAM_CONFIG_H_

/* ---- Yours to choose: take the line out of its comment ---- */

/* The smaller key exchange, without forward secrecy: set gs_config.key_exchange to GS_PSK_KE as well. */
/* #define GS_PSK_KE_ONLY 1 */

/* Features that a device goes without; runtime/base/features.h says what each is. */
/* #define GS_WITHOUT_UNITS 1 */
/* #define GS_WITHOUT_BATCHES 1 */
/* #define GS_WITHOUT_EVALUATION 1 */
/* #define GS_WITHOUT_USE 1 */
/* #define GS_WITHOUT_TENSORS 1 */
/* #define GS_WITHOUT_MEMORY 1 */
/* #define GS_WITHOUT_PRODUCTS 1 */
/* #define GS_WITHOUT_ENCODINGS 1 */
/* #define GS_WITHOUT_ALONG 1 */
/* #define GS_WITHOUT_BYTES 1 */

/* The device has mains power: it may leave its request for a task with the server (gs_config.power). */
/* #define GS_HOLDS_PULLS 1 */

/* A loss of the application is measured by an apparatus, and may answer GS_MEASURING. */
/* #define GS_MEASURED_LOSS 1 */

/* ---- As the package was built and tried ---- */

/* The form for microcontrollers, on a host too: no heap, no certificates, no libm that no run of a device reaches. */
#define GS_BARE_METAL 1
/* No kernels of wide vectors. */
#define GS_NO_WIDE 1

/* nanopb's structures without streams over callbacks and without texts of errors. */
#ifndef PB_BUFFER_ONLY
#define PB_BUFFER_ONLY 1
#endif
#ifndef PB_NO_ERRMSG
#define PB_NO_ERRMSG 1
#endif

#endif /* GRADSTREAM_CONFIG_H_ */
