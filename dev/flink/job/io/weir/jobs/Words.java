package io.weir.jobs;

import java.io.Serializable;

/**
 * The words of each line, as a function of the line's number alone. {@code check_counts.py} holds the same function;
 * change both or neither.
 */
final class Words implements Serializable {
    static final String HOT = "word-hot-------------";

    final int perLine;
    private final int keys;
    private final double hotShare;

    Words(int perLine, int keys, double hotShare) {
        this.perLine = perLine;
        this.keys = keys;
        this.hotShare = hotShare;
    }

    String word(long line, int index) {
        long hash = mix(line * perLine + index);
        double uniform = (hash >>> 11) / (double) (1L << 53);
        return uniform < hotShare ? HOT : "word-" + (1_000_000_000L + (hash & Integer.MAX_VALUE) % keys) + "-----";
    }

    private static long mix(long n) {
        long hash = n * 0x9E3779B97F4A7C15L;
        hash ^= hash >>> 32;
        hash *= 0xD6E8FEB86659FD93L;
        return hash ^ (hash >>> 32);
    }
}
