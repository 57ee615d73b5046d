/* The release that both tools and the library belong to. */
#ifndef SMOL_COMMON_VERSION_H
#define SMOL_COMMON_VERSION_H

#define SMOL_VERSION "0.1.0"

#endif
