// Asio's own code, once (ASIO_SEPARATE_COMPILATION): every other unit that uses it compiles in two thirds of the time.
#include <asio/impl/src.hpp>
