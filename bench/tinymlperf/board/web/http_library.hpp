// cpp-httplib as its compiled library was built: with OpenSSL its struct of a request has a member more. The
// board itself speaks plain HTTP, by default to this machine alone.
#pragma once

#ifndef CPPHTTPLIB_OPENSSL_SUPPORT
#define CPPHTTPLIB_OPENSSL_SUPPORT
#endif
#include <httplib.h>
