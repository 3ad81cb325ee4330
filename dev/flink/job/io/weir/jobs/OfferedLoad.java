package io.weir.jobs;

import java.io.IOException;
import java.io.Serializable;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * The offered load as a step function of wall time, and its exact integral: how many lines the outside world has
 * produced since the queue began. A restart of the job loses nothing, since the integral depends on time alone.
 *
 * <p>The steps come from a file of lines {@code epochMs linesPerSecond}, to which anyone may append at run time; a line
 * {@code epochMs end} ends production for good. Rates count in thousandths of a line per second, so that all sums are
 * whole numbers and another program can compute the very same total. Stamp a line a little into the future: production
 * never runs ahead of the last look at the file, but a line dated in the past comes too late for what is already out.
 */
final class OfferedLoad implements Serializable {
    private static final long LOOK_EVERY_MS = 20;
    private static final long MILLI_LINES_TIMES_MS_PER_LINE = 1_000_000;

    private final long firstRate;
    private final String file;
    private transient List<Step> steps;
    private transient long endMs;
    private transient long lastLookMs;
    private transient long lastSize;

    /** {@code file} may be null: then the first rate holds for ever. */
    OfferedLoad(String firstRate, String file) {
        this.firstRate = thousandths(firstRate);
        this.file = file;
    }

    /** Lines produced from {@code startMs} until now, or until the end if that is past. */
    synchronized long produced(long startMs, long nowMs) {
        look(nowMs);
        long until = Math.min(file == null ? nowMs : Math.min(nowMs, lastLookMs), endMs);
        long sum = 0;
        long from = startMs;
        long rate = firstRate;
        for (Step step : steps) {
            long to = Math.min(step.atMs, until);
            if (to > from) {
                sum += rate * (to - from);
                from = to;
            }
            rate = step.rate;
        }
        if (until > from) {
            sum += rate * (until - from);
        }
        return sum / MILLI_LINES_TIMES_MS_PER_LINE;
    }

    /** Whether no line will ever be produced after those that {@link #produced} now counts. */
    synchronized boolean ended(long nowMs) {
        look(nowMs);
        return endMs <= lastLookMs;
    }

    /** Lines of one of {@code splits} partitions, when {@code total} lines are dealt out in turn. */
    static long shareOf(int split, int splits, long total) {
        return total <= split ? 0 : (total - split - 1) / splits + 1;
    }

    private void look(long nowMs) {
        if (steps == null) {
            steps = List.of();
            endMs = Long.MAX_VALUE;
            lastSize = -1;
        } else if (nowMs < lastLookMs + LOOK_EVERY_MS) {
            return;
        }
        if (file != null) {
            read();
        }
        lastLookMs = Math.max(nowMs, lastLookMs);
    }

    private void read() {
        try {
            Path path = Path.of(file);
            long size = Files.size(path);
            if (size != lastSize) {
                parse(Files.readString(path, StandardCharsets.UTF_8));
                lastSize = size;
            }
        } catch (NoSuchFileException absent) {
            // Not written yet: the first rate holds.
        } catch (IOException problem) {
            throw new IllegalStateException("cannot read the rate file " + file, problem);
        }
    }

    private void parse(String text) {
        List<Step> found = new ArrayList<>();
        long end = Long.MAX_VALUE;
        // What follows the last newline is a line still being written.
        for (String line : text.substring(0, text.lastIndexOf('\n') + 1).split("\n")) {
            String[] words = line.trim().split("\\s+");
            if (words.length != 2) {
                continue;
            }
            long atMs = Long.parseLong(words[0]);
            if (words[1].equals("end")) {
                end = Math.min(end, atMs);
            } else {
                found.add(new Step(atMs, thousandths(words[1])));
            }
        }
        found.sort(Comparator.comparingLong(step -> step.atMs));
        steps = found;
        endMs = end;
    }

    private static long thousandths(String rate) {
        return new BigDecimal(rate).movePointRight(3).longValue();
    }

    private static final class Step {
        private final long atMs;
        private final long rate;

        private Step(long atMs, long rate) {
            this.atMs = atMs;
            this.rate = rate;
        }
    }
}
