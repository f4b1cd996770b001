package muster;

import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.jupiter.api.extension.TestExecutionExceptionHandler;

/**
 * One server for the tests of a class: {@code @RegisterExtension static MusterExtension muster = new MusterExtension(…)}.
 *
 * <p>Tests take it as a parameter of type {@link Muster}. After each test its faults are taken away; when one fails, it
 * is told what happened in the groups that the class asked for.
 */
public final class MusterExtension
        implements BeforeAllCallback, AfterAllCallback, AfterEachCallback, ParameterResolver, TestExecutionExceptionHandler {
    private final Muster.Options options;
    private Muster muster;

    public MusterExtension(Muster.Options options) {
        this.options = options;
    }

    @Override
    public void beforeAll(ExtensionContext context) {
        muster = options.start();
    }

    @Override
    public void afterAll(ExtensionContext context) {
        if (muster != null) {
            muster.close();
        }
    }

    @Override
    public void afterEach(ExtensionContext context) {
        muster.clearFaults();
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == Muster.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        return muster;
    }

    @Override
    public void handleTestExecutionException(ExtensionContext context, Throwable failure) throws Throwable {
        for (Muster.Group group : muster.groups()) {
            try {
                String timeline = String.join("\n  ", group.timeline());
                failure.addSuppressed(new AssertionError("what happened in the group " + group.id + ":\n  " + timeline));
            } catch (RuntimeException gone) {
                failure.addSuppressed(gone);
            }
        }
        throw failure;
    }
}
